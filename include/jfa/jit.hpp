// Kernels compiled at run time. The device code under kernels/ is part of the library as text; a
// kernel is compiled when it is first needed, kept on disk, and can be shipped compiled in a
// bundle.
//
//   memory → bundles → disk cache → NVRTC
//
// Nothing here needs a GPU or a driver: a cubin for sm_90a is made on any machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace jfa::jit {

// cubin: machine code for one GPU architecture. ptx: text, for the emulator.
enum class ImageKind : std::uint8_t { cubin, ptx };

// What identifies a compiled kernel, the version of the compiler apart.
struct KernelRequest {
  std::string source;        // file below kernels/, e.g. "examples/vector_add.cu"
  std::string entry;         // the kernel as C++ writes it: "jfa::examples::softmax_rows<256>"
  std::string architecture;  // "sm_90a"
  ImageKind kind = ImageKind::cubin;
  std::vector<std::string> options;  // further NVRTC options: "-DNAME=1"
  std::string snippet;  // optional CUDA C++ compiled ahead of the source (a user's own function);
                        // errors call it "snippet"

  bool operator==(const KernelRequest&) const = default;
};

// What one thread or block of the kernel takes, as ptxas reports it.
struct KernelResources {
  int registers = 0;            // a thread
  int spill_store_bytes = 0;    // a thread; 0 in every kernel that ships
  int spill_load_bytes = 0;     // a thread
  int stack_bytes = 0;          // a thread: local arrays and spills
  int static_shared_bytes = 0;  // a block; dynamic shared memory comes on top at launch
  int barriers = 0;             // named barriers of a block

  bool operator==(const KernelResources&) const = default;
};

struct CompiledKernel {
  KernelRequest request;
  std::string symbol;                        // the entry's name in the image
  std::string compiler;                      // "NVRTC 13.0"
  std::optional<KernelResources> resources;  // cubin only: PTX has no registers yet
  std::vector<std::string> remarks;          // warnings and performance remarks of the compiler
  std::string image;                         // ELF bytes or PTX text
};

// The text of the device code: path below kernels/ → content. Device code includes other device
// code by that path (`#include "tlx/barrier.cuh"`) and nothing else.
using SourceTree = std::map<std::string, std::string, std::less<>>;

// The sources that the library was built with.
const SourceTree& embedded_sources();

// The sources below a directory, for those who write kernels: no rebuild after an edit.
// Throws DeviceError when the directory cannot be read.
SourceTree read_sources(const std::filesystem::path& directory);

// Where the compiler is and what it can do.
struct CompilerInfo {
  std::filesystem::path path;              // of libnvrtc
  std::string name;                        // "NVRTC 13.0"
  std::vector<std::string> architectures;  // of the GPUs it knows: "sm_90", …
};

struct Settings {
  std::filesystem::path cache_directory;       // empty: nothing is kept on disk
  std::uint64_t cache_limit_bytes = 1U << 30;  // 0: nothing is kept on disk
  std::vector<std::filesystem::path> bundles;  // searched in this order, ahead of the cache
  std::filesystem::path nvrtc;                 // file or its directory; empty: search (docs/jit.md)
  std::filesystem::path kernel_sources;        // empty: the embedded ones
  double lock_timeout_seconds = 60;  // wait this long for another process that compiles the same
                                     // kernel, then compile it too
};

// Reads JFA_CACHE_DIR (default $XDG_CACHE_HOME/jfa, else ~/.cache/jfa), JFA_CACHE_LIMIT ("512M",
// "2G", "0": no cache), JFA_BUNDLE (directories, colon-separated), JFA_NVRTC (library or its
// directory) and JFA_KERNELS (directory of sources). Throws InvalidArgument for a malformed value.
Settings settings_from_environment();

// One file of the disk cache or of a bundle.
struct CacheEntry {
  std::filesystem::path file;
  std::uint64_t bytes = 0;
  std::filesystem::file_time_type last_used;
  std::optional<CompiledKernel> kernel;  // without its image; absent: the file is damaged
};

// Finds or makes compiled kernels. All members may be called by many threads, and the directory may
// be shared by many processes.
class KernelStore {
 public:
  explicit KernelStore(Settings settings);
  ~KernelStore();
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;

  const Settings& settings() const;

  // The compiled kernel: from memory, a bundle, the disk cache, or the compiler, in this order.
  // Throws InvalidArgument for an unknown source file or a malformed request, DeviceError when the
  // code does not compile (with the compiler's log: file of kernels/ and line) or when it would
  // have to be compiled and there is no compiler (with the places that were searched).
  std::shared_ptr<const CompiledKernel> get(const KernelRequest& request);

  // Compiles, whatever is stored. Throws as get.
  CompiledKernel compile(const KernelRequest& request);

  // Throws DeviceError with the places that were searched when there is none.
  CompilerInfo compiler();

  // The requests of the disk cache whose sources have not changed since: what a workload that ran
  // here needs. Most recently used first.
  std::vector<KernelRequest> cached_requests() const;

  // The disk cache, most recently used first.
  std::vector<CacheEntry> list() const;

  // Removes every entry of the disk cache, and what killed writers left. Returns the bytes freed.
  std::uint64_t clear();

  // Writes these kernels into `directory`, which JFA_BUNDLE or Settings::bundles may then name on a
  // machine without a compiler; the kernel sources of both builds must be the same. Adds to a
  // bundle that exists. Returns the files, in the order of the requests.
  std::vector<std::filesystem::path> write_bundle(const std::vector<KernelRequest>& requests,
                                                  const std::filesystem::path& directory);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The store of this process, made from the environment at the first call.
KernelStore& default_store();

// "sm_90a cubin jfa::examples::softmax_rows<256> (examples/softmax_rows.cu)", for messages.
std::string to_string(const KernelRequest& request);

// "168 registers, no spills, 1024 bytes of static shared memory, 3 barriers".
std::string to_string(const KernelResources& resources);

}  // namespace jfa::jit
