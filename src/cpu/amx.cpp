#include "cpu/amx.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#if defined(__x86_64__) && defined(__linux__)
#define JFA_HAVE_AMX 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace jfa::cpu {
namespace {

enum class Unit { none, hardware, emulated };

#ifdef JFA_HAVE_AMX
bool have_hardware() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr unsigned kAmxTile = 1U << 24;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  // Tiles are 8 KiB of state, which Linux gives to processes that ask
  // (Documentation/arch/x86/xstate).
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

Unit choose_unit() {
  const char* wish = std::getenv("JFA_AMX");
  if (wish != nullptr && std::string_view(wish) == "0") return Unit::none;
  if (wish != nullptr && std::string_view(wish) == "emulated") return Unit::emulated;
#ifdef JFA_HAVE_AMX
  if (have_hardware()) return Unit::hardware;
#endif
  return Unit::none;
}

Unit unit() {
  static const Unit chosen = choose_unit();
  return chosen;
}

float float_of(std::uint16_t bfloat16) {
  const std::uint32_t bits = std::uint32_t{bfloat16} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void multiply_emulated(const AmxProduct& p) {
  const auto* a = static_cast<const std::byte*>(p.a);
  const auto* b = static_cast<const std::byte*>(p.b);
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const auto* left = reinterpret_cast<const std::uint16_t*>(a + i * p.a_stride);
    float* out = p.c + i * p.c_stride / static_cast<std::int64_t>(sizeof(float));
    for (std::int64_t j = 0; j < p.columns; ++j) {
      float sum = p.add ? out[j] : 0;
      for (std::int64_t k = 0; k < p.depth; ++k) {
        const auto* right = reinterpret_cast<const std::uint16_t*>(b + k / 2 * p.b_stride);
        sum += float_of(left[k]) * float_of(right[2 * j + k % 2]);
      }
      out[j] = sum;
    }
  }
}

#ifdef JFA_HAVE_AMX
#define JFA_AMX_FUNCTION __attribute__((target("amx-tile,amx-bf16"), noinline))

// The layout that ldtilecfg reads (Intel SDM, volume 1, §18.2): palette 1, all tiles of full size.
struct TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};
};
static_assert(sizeof(TileConfiguration) == 64);

JFA_AMX_FUNCTION void configure_tiles() {
  TileConfiguration configuration;
  for (std::size_t tile = 0; tile < 8; ++tile) {
    configuration.row_bytes[tile] = 64;
    configuration.rows[tile] = 16;
  }
  asm volatile(""
               :
               : "r"(&configuration)
               : "memory");  // GCC takes 8 bytes of it for all that is read
  _tile_loadconfig(&configuration);
}

JFA_AMX_FUNCTION void release_tiles() {
  _tile_release();
}

// A block of C stays in tiles over the whole depth: kRows × kColumns tiles, 2 × 2 at most, with two
// tiles of A and two of B. The tile numbers are literals, as GCC wants them.
template <int kRows, int kColumns>
JFA_AMX_FUNCTION void multiply_block(const AmxProduct& p, const std::byte* a, const std::byte* b,
                                     std::byte* c) {
  const std::int64_t a_down = 16 * p.a_stride;
  const std::int64_t c_down = 16 * p.c_stride;
  asm volatile("" ::: "memory");  // GCC's tile loads do not say that they read memory
  if (p.add) {
    _tile_loadd(0, c, p.c_stride);
    if constexpr (kColumns > 1) _tile_loadd(1, c + 64, p.c_stride);
    if constexpr (kRows > 1) _tile_loadd(2, c + c_down, p.c_stride);
    if constexpr (kRows > 1 && kColumns > 1) _tile_loadd(3, c + c_down + 64, p.c_stride);
  } else {
    _tile_zero(0);
    if constexpr (kColumns > 1) _tile_zero(1);
    if constexpr (kRows > 1) _tile_zero(2);
    if constexpr (kRows > 1 && kColumns > 1) _tile_zero(3);
  }
  for (std::int64_t k = 0; k < p.depth; k += 32) {
    _tile_loadd(6, b, p.b_stride);
    if constexpr (kColumns > 1) _tile_loadd(7, b + 64, p.b_stride);
    _tile_loadd(4, a, p.a_stride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns > 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRows > 1) {
      _tile_loadd(5, a + a_down, p.a_stride);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kColumns > 1) _tile_dpbf16ps(3, 5, 7);
    }
    a += 64;
    b += 16 * p.b_stride;
  }
  _tile_stored(0, c, p.c_stride);
  if constexpr (kColumns > 1) _tile_stored(1, c + 64, p.c_stride);
  if constexpr (kRows > 1) _tile_stored(2, c + c_down, p.c_stride);
  if constexpr (kRows > 1 && kColumns > 1) _tile_stored(3, c + c_down + 64, p.c_stride);
}

void multiply_hardware(const AmxProduct& p) {
  const auto* a = static_cast<const std::byte*>(p.a);
  const auto* b = static_cast<const std::byte*>(p.b);
  auto* c = reinterpret_cast<std::byte*>(p.c);
  for (std::int64_t j = 0; j < p.columns; j += 32) {
    const bool wide = p.columns - j >= 32;
    for (std::int64_t i = 0; i < p.rows; i += 32) {
      const bool tall = p.rows - i >= 32;
      const auto block = tall ? (wide ? multiply_block<2, 2> : multiply_block<2, 1>)
                              : (wide ? multiply_block<1, 2> : multiply_block<1, 1>);
      block(p, a + i * p.a_stride, b + j * 4, c + i * p.c_stride + j * 4);
    }
  }
}
#endif

}  // namespace

bool amx_usable() {
  return unit() != Unit::none;
}

AmxTiles::AmxTiles() {
#ifdef JFA_HAVE_AMX
  if (unit() == Unit::hardware) configure_tiles();
#endif
}

AmxTiles::~AmxTiles() {
#ifdef JFA_HAVE_AMX
  if (unit() == Unit::hardware) release_tiles();
#endif
}

void amx_multiply(const AmxProduct& product) {
#ifdef JFA_HAVE_AMX
  if (unit() == Unit::hardware) return multiply_hardware(product);
#endif
  multiply_emulated(product);
}

}  // namespace jfa::cpu
