// Memory, streams, events and tensor maps of an opened device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "device/context_state.hpp"
#include "jfa/error.hpp"

namespace jfa::runtime {
namespace {

device::DevicePointer address(const void* memory) {
  return reinterpret_cast<device::DevicePointer>(memory);
}

// Calls one function of the driver with the context current.
template <typename Function, typename... Arguments>
void call(Context::State& state, std::string_view what, Function function, Arguments... arguments) {
  const CurrentContext current(*state.driver, state.context);
  device::check(*state.driver, ((*state.driver).*function)(arguments...), what);
}

// The same where an error has nobody to go to: destructors and `free`.
template <typename Function, typename... Arguments>
void call_quietly(Context::State& state, Function function, Arguments... arguments) noexcept {
  try {
    const CurrentContext current(*state.driver, state.context);
    ((*state.driver).*function)(arguments...);
  } catch (const DeviceError&) {  // the device is lost; so is what was to be freed
  }
}

using Table = device::DriverTable;

}  // namespace

Context::Context(std::unique_ptr<State> state) : state_(std::move(state)) {}
Context::~Context() = default;

const DeviceInfo& Context::info() const {
  return state_->info;
}

void* Context::allocate(std::size_t bytes) {
  device::DevicePointer memory = 0;
  // The driver refuses an allocation of nothing; an empty batch is ordinary.
  call(*state_, fmt::format("cannot allocate {} bytes on {}", bytes, to_string(info().device)),
       &Table::memory_allocate, &memory, std::max<std::size_t>(bytes, 1));
  return reinterpret_cast<void*>(memory);
}

void Context::free(void* memory) {
  if (memory != nullptr) {
    call_quietly(*state_, &Table::memory_free, address(memory));
  }
}

void Context::copy(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
  if (bytes > 0) {
    call(*state_, fmt::format("cannot copy {} bytes", bytes), &Table::memory_copy, address(to),
         address(from), bytes, stream);
  }
}

void Context::fill(void* memory, std::uint8_t value, std::size_t bytes, StreamHandle stream) {
  if (bytes > 0) {
    call(*state_, fmt::format("cannot fill {} bytes", bytes), &Table::memory_fill, address(memory),
         value, bytes, stream);
  }
}

void* Context::allocate_host(std::size_t bytes) {
  void* memory = nullptr;
  call(*state_, fmt::format("cannot allocate {} bytes of pinned host memory", bytes),
       &Table::host_allocate, &memory, std::max<std::size_t>(bytes, 1), 0U);
  return memory;
}

void Context::free_host(void* memory) {
  if (memory != nullptr) {
    call_quietly(*state_, &Table::host_free, memory);
  }
}

void Context::register_host(void* memory, std::size_t bytes) {
  if (bytes > 0) {
    call(*state_, fmt::format("cannot register {} bytes of host memory", bytes),
         &Table::host_register, memory, bytes, 0U);
  }
}

void Context::unregister_host(void* memory) {
  call_quietly(*state_, &Table::host_unregister, memory);
}

StreamIdentity Context::identity(StreamHandle stream) const {
  StreamIdentity identity;
  if (stream != nullptr) {  // the default stream cannot be captured
    constexpr int kCapturing = 1;
    int status = 0;
    std::uint64_t capture = 0;
    call(*state_, "cannot ask for the stream's capture", &Table::stream_capture, stream, &status,
         &capture, nullptr, nullptr, nullptr);
    if (status == kCapturing) {
      // The driver does not tell a stream's number then; its address will do for as long as the
      // capture lasts.
      return {reinterpret_cast<std::uintptr_t>(stream), capture};
    }
  }
  unsigned long long id = 0;
  call(*state_, "cannot identify the stream", &Table::stream_id, stream, &id);
  identity.id = id;
  return identity;
}

void Context::synchronize(StreamHandle stream) {
  call(*state_, fmt::format("work on {} failed", to_string(info().device)),
       &Table::stream_synchronize, stream);
}

TensorMap Context::tensor_map(const void* memory, const TensorMapShape& shape) const {
  if (shape.rank < 1 || shape.rank > 5) {
    throw InvalidArgument(fmt::format("tensor map: rank is {}; expected 1 to 5", shape.rank));
  }
  device::TensorMapBytes bytes;
  const CurrentContext current(*state_->driver, state_->context);
  const device::Status status = state_->driver->encode_tensor_map(
      &bytes, static_cast<int>(shape.element), shape.rank, const_cast<void*>(memory),
      shape.size.data(), shape.stride_bytes.data(), shape.box.data(), shape.element_stride.data(),
      0, static_cast<int>(shape.swizzle), static_cast<int>(shape.l2_promotion),
      shape.nan_outside ? 1 : 0);
  if (status != device::kSuccess) {
    const char* detail = state_->driver->error_detail();
    throw InvalidArgument(fmt::format(
        "tensor map: the driver refuses (status {}) address {}, element type {}, size {}, strides "
        "{} bytes, box {}, element strides {}, swizzle {}. Address and strides must be multiples "
        "of 16 bytes, sizes 1 to 2^32, box 1 to 256 elements, its first dimension a multiple of "
        "16 bytes and no wider than the swizzle.{}{}",
        status, fmt::ptr(memory), static_cast<int>(shape.element),
        fmt::join(shape.size.begin(), shape.size.begin() + shape.rank, "×"),
        fmt::join(shape.stride_bytes.begin(), shape.stride_bytes.begin() + shape.rank - 1, ", "),
        fmt::join(shape.box.begin(), shape.box.begin() + shape.rank, "×"),
        fmt::join(shape.element_stride.begin(), shape.element_stride.begin() + shape.rank, ", "),
        static_cast<int>(shape.swizzle), detail != nullptr ? " " : "",
        detail != nullptr ? detail : ""));
  }
  return {bytes.words};
}

Context& open(const Device& device) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Context>> contexts;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Context>& context = contexts[to_string(device)];
  if (!context) {
    const device::DriverDevice found = device::find_driver(device);
    auto state = std::make_unique<Context::State>();
    state->driver = found.driver;
    state->info = device_info(device);
    device::check(*found.driver, found.driver->context_retain(&state->context, found.device),
                  fmt::format("cannot open {}", to_string(device)));
    context = std::make_unique<Context>(std::move(state));
  }
  return *context;
}

Stream::Stream(Context& context) : context_(&context) {
  constexpr unsigned kNonBlocking = 1;  // does not wait for the default stream
  call(context.state(), "cannot create a stream", &Table::stream_create, &handle_, kNonBlocking);
}

Stream::~Stream() {
  call_quietly(context_->state(), &Table::stream_destroy, handle_);
}

Event::Event(Context& context) : context_(&context) {
  call(context.state(), "cannot create an event", &Table::event_create, &handle_, 0U);
}

Event::~Event() {
  call_quietly(context_->state(), &Table::event_destroy, handle_);
}

void Event::record(StreamHandle stream) {
  call(context_->state(), "cannot record an event", &Table::event_record, handle_, stream);
}

void Event::synchronize() {
  call(context_->state(), fmt::format("work on {} failed", to_string(context_->info().device)),
       &Table::event_synchronize, handle_);
}

double Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  call(context_->state(), "cannot read the time between two events", &Table::event_elapsed,
       &milliseconds, start.handle_, handle_);
  return milliseconds;
}

}  // namespace jfa::runtime
