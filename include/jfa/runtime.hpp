// Work on a GPU or on a PTX machine through one interface: memory, streams, events, kernels.
// Nothing here needs CUDA to be installed; opening a device that is not there is a clear error.
//
//   runtime::Context& context = runtime::open(parse_device("cuda:0"));
//   runtime::Buffer out(context, bytes);
//   const runtime::Kernel& kernel = context.kernel("examples/vector_add.cu", "vector_add");
//   kernel.launch({.grid = {80}, .block = {256}}, a, b, out.data(), count);
//   context.synchronize();
//
// A PTX machine runs everything at once and in order; what its checkers find is the error of the
// launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jfa/device.hpp"
#include "jfa/jit.hpp"

namespace jfa::runtime {

// A stream of the device's driver, e.g. a cudaStream_t that another library made. Null: the default
// stream.
using StreamHandle = void*;

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

struct LaunchConfig {
  Dim3 grid{};     // blocks; a grid with a zero runs nothing
  Dim3 block{};    // threads
  Dim3 cluster{};  // blocks of one cluster
  unsigned dynamic_shared_bytes = 0;
  // May start while the kernel ahead in the stream still runs; the kernel waits with
  // griddepcontrol.wait where it needs its results.
  bool overlap_previous = false;
  StreamHandle stream = nullptr;
};

// A kernel loaded on a device. Lives as long as its Context.
class Kernel {
 public:
  struct State;
  explicit Kernel(std::unique_ptr<State> state);
  ~Kernel();
  Kernel(Kernel&&) noexcept;
  Kernel& operator=(Kernel&&) noexcept;

  // Each argument has the type and size of the kernel's parameter. Throws DeviceError with the
  // kernel and the launch when the driver refuses it, or a PTX machine finds a fault.
  template <typename... Arguments>
  void launch(const LaunchConfig& config, const Arguments&... arguments) const {
    std::array<void*, sizeof...(Arguments) + 1> pointers{
        const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
    launch_with(config, pointers.data());
  }
  // arguments[i] points at the value of parameter i.
  void launch_with(const LaunchConfig& config, void** arguments) const;

  // Blocks of one multiprocessor that fit at the same time. A PTX machine does not count registers.
  int resident_blocks(unsigned threads, unsigned dynamic_shared_bytes) const;

  const jit::CompiledKernel& compiled() const;

 private:
  std::unique_ptr<State> state_;
};

// Element types, layouts and rules of a tensor map: CUDA driver API, "Tensor Map Object
// Management".
enum class TensorElement : std::uint8_t { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16 };
enum class TensorSwizzle : std::uint8_t { none, bytes32, bytes64, bytes128 };
enum class TensorPromotion : std::uint8_t { none, bytes64, bytes128, bytes256 };

struct TensorMapShape {
  TensorElement element = TensorElement::bf16;
  unsigned rank = 1;                            // 1 … 5; dimension 0 is contiguous
  std::array<std::uint64_t, 5> size{};          // elements
  std::array<std::uint64_t, 4> stride_bytes{};  // of dimensions 1 …; multiples of 16
  std::array<std::uint32_t, 5> box{};           // elements of one copy, at most 256 each
  std::array<std::uint32_t, 5> element_stride{1, 1, 1, 1, 1};
  TensorSwizzle swizzle = TensorSwizzle::none;
  TensorPromotion l2_promotion = TensorPromotion::none;
  bool nan_outside = false;  // what reads outside the tensor give; else zero
};

// Passed to a kernel by value, as a __grid_constant__ parameter.
struct alignas(128) TensorMap {
  std::array<std::uint64_t, 16> words{};
};

// Work with the same identity runs in order: `id` is the stream's and never given to another one,
// `capture` that of the CUDA graph that captures it at the moment, else 0.
struct StreamIdentity {
  std::uint64_t id = 0;
  std::uint64_t capture = 0;

  bool operator==(const StreamIdentity&) const = default;
};

// An opened device. All members may be called by many threads.
class Context {
 public:
  struct State;
  explicit Context(std::unique_ptr<State> state);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const DeviceInfo& info() const;

  // Memory of the device. A PTX machine fills it with NaN. Throws DeviceError when there is none
  // left. `free` ignores null.
  void* allocate(std::size_t bytes);
  void free(void* memory);

  // Copies in any direction between device memory and host memory, in stream order. Ordinary host
  // memory may be reused when the call returns only after `synchronize`.
  void copy(void* to, const void* from, std::size_t bytes, StreamHandle stream = nullptr);
  void fill(void* memory, std::uint8_t value, std::size_t bytes, StreamHandle stream = nullptr);

  // Host memory that kernels can reach and that copies at full speed.
  void* allocate_host(std::size_t bytes);
  void free_host(void* memory);

  // Makes memory of the host reachable for kernels under its own address: the tensors of a caller
  // who works on a PTX machine.
  void register_host(void* memory, std::size_t bytes);
  void unregister_host(void* memory);

  StreamIdentity identity(StreamHandle stream) const;

  // Waits for a stream, and throws the error of what ran there.
  void synchronize(StreamHandle stream = nullptr);

  // The kernel for this device, compiled when needed (jit.hpp) and loaded once. Throws as
  // jit::KernelStore::get, and DeviceError when the driver refuses the code.
  const Kernel& kernel(const std::string& source, const std::string& entry,
                       const std::vector<std::string>& options = {},
                       const std::string& snippet = {});

  // Throws InvalidArgument with the arguments when the rules of tensor maps are broken.
  TensorMap tensor_map(const void* memory, const TensorMapShape& shape) const;

  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// The device, opened once and for the life of the process. Throws as device_info.
Context& open(const Device& device);

// Device memory that is freed with its owner.
class Buffer {
 public:
  Buffer(Context& context, std::size_t bytes)
      : context_(&context), data_(context.allocate(bytes)), bytes_(bytes) {}
  ~Buffer() { context_->free(data_); }
  Buffer(Buffer&& other) noexcept
      : context_(other.context_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Context* context_;
  void* data_;
  std::size_t bytes_;
};

class Stream {
 public:
  explicit Stream(Context& context);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const { return handle_; }

 private:
  Context* context_;
  StreamHandle handle_ = nullptr;
};

// A mark in a stream. On a PTX machine times are those of the host's clock.
class Event {
 public:
  explicit Event(Context& context);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(StreamHandle stream = nullptr);
  // Waits until the stream has come to the mark.
  void synchronize();
  // Milliseconds from `start` to this event, both of which have been recorded and reached.
  double milliseconds_since(const Event& start) const;

 private:
  Context* context_;
  void* handle_ = nullptr;
};

}  // namespace jfa::runtime
