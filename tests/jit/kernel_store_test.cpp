#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "jfa/error.hpp"
#include "jfa/jit.hpp"
#include "jit/temporary_directory.hpp"

namespace jfa::jit {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

const fs::path kNoCompiler = "/nonexistent/compiler";

KernelRequest softmax(ImageKind kind = ImageKind::cubin) {
  return {.source = "examples/softmax_rows.cu",
          .entry = "jfa::examples::softmax_rows<256>",
          .architecture = "sm_90a",
          .kind = kind,
          .options = {},
          .snippet = {}};
}

KernelRequest in_directory(std::string source, std::string entry) {
  return {.source = std::move(source),
          .entry = std::move(entry),
          .architecture = "sm_90a",
          .kind = ImageKind::cubin,
          .options = {},
          .snippet = {}};
}

// Tests with a compiler are skipped on a machine without one, except where CI must have it.
class WithCompiler : public ::testing::Test {
 protected:
  void SetUp() override {
    settings_.cache_directory = directory_.path() / "cache";
    try {
      KernelStore(settings_).compiler();
    } catch (const DeviceError& error) {
      if (std::getenv("CI") != nullptr) {
        FAIL() << error.what();
      }
      GTEST_SKIP() << error.what();
    }
  }

  Settings without_compiler() const {
    Settings settings = settings_;
    settings.nvrtc = kNoCompiler;
    return settings;
  }

  fs::path write_source(const std::string& name, const std::string& content) {
    const fs::path sources = directory_.path() / "sources";
    fs::create_directories((sources / name).parent_path());
    std::ofstream(sources / name) << content;
    settings_.kernel_sources = sources;
    return sources;
  }

  test::TemporaryDirectory directory_;
  Settings settings_;
};

TEST_F(WithCompiler, CompilesACubinWithItsResources) {
  KernelStore store(settings_);
  const auto kernel = store.get(softmax());
  EXPECT_THAT(kernel->image, StartsWith("\x7f"
                                        "ELF"));
  EXPECT_THAT(kernel->symbol, HasSubstr("softmax_rows"));
  EXPECT_THAT(kernel->compiler, StartsWith("NVRTC "));
  EXPECT_THAT(kernel->remarks, IsEmpty());
  ASSERT_TRUE(kernel->resources.has_value());
  EXPECT_GT(kernel->resources->registers, 8);
  EXPECT_EQ(kernel->resources->static_shared_bytes, 8 * 4);
  EXPECT_EQ(kernel->resources->barriers, 1);
  EXPECT_EQ(store.get(softmax()), kernel) << "the second call finds it in memory";
}

TEST_F(WithCompiler, CompilesPtxWithLinesOfTheSource) {
  KernelStore store(settings_);
  const auto kernel = store.get(softmax(ImageKind::ptx));
  EXPECT_THAT(kernel->image, AllOf(HasSubstr(".target sm_90a"), HasSubstr(".loc"),
                                   HasSubstr("\"kernels/examples/softmax_rows.cu\""),
                                   Not(HasSubstr(fs::current_path().string()))));
  EXPECT_EQ(kernel->image.find('\0'), std::string::npos);
  EXPECT_FALSE(kernel->resources.has_value());
}

// Kernels that ship must neither spill nor make the compiler complain.
TEST_F(WithCompiler, ShippedKernelsDoNotSpill) {
  KernelStore store(settings_);
  KernelRequest add = softmax();
  add.source = "examples/vector_add.cu";
  add.entry = "jfa::examples::vector_add";
  std::vector<KernelRequest> requests = {softmax(), add};
  // Element, D, Dv, activation, mask, packed heads, factors of out, long keys: the instances that
  // need most registers.
  for (const char* config :
       {"bf16, 128, 128, jfa::kernels::Activation::softmax, 0, 1, false, false",
        "bf16, 128, 128, jfa::kernels::Activation::softmax, 1, 1, false, true",
        "f16, 128, 128, jfa::kernels::Activation::softmax, 3, 3, false, false",
        "bf16, 128, 128, jfa::kernels::Activation::softmax, 3, 1, true, true",
        "bf16, 64, 64, jfa::kernels::Activation::softmax, 3, 1, false, false",
        "bf16, 64, 64, jfa::kernels::Activation::softmax, 1, 1, false, false",
        "bf16, 64, 64, jfa::kernels::Activation::softmax, 1, 2, true, false",
        "f16, 64, 64, jfa::kernels::Activation::softmax, 5, 1, true, false",
        "bf16, 16, 16, jfa::kernels::Activation::softmax, 0, 1, false, false",
        "bf16, 256, 256, jfa::kernels::Activation::silu, 6, 1, false, false"}) {
    KernelRequest forward = softmax();
    forward.source = "attention/sm90/forward.cu";
    forward.entry = fmt::format(
        "jfa::kernels::sm90::forward<jfa::kernels::sm90::ForwardConfig<jfa::tlx::{}>>", config);
    requests.push_back(forward);
  }
  for (const KernelRequest& request : requests) {
    const auto kernel = store.get(request);
    EXPECT_EQ(kernel->resources->spill_store_bytes, 0) << to_string(request);
    EXPECT_EQ(kernel->resources->spill_load_bytes, 0) << to_string(request);
    EXPECT_THAT(kernel->remarks, IsEmpty()) << to_string(request);
  }
}

TEST_F(WithCompiler, SpillsAreCounted) {
  write_source("spill.cu", R"(
    extern "C" __global__ void __launch_bounds__(1024) spill(float* p) {
      float v[96];
      for (int i = 0; i < 96; ++i) v[i] = p[threadIdx.x + i * 1024];
      __syncthreads();
      for (int round = 0; round < 3; ++round) {
        #pragma unroll
        for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i * 7 + 1) % 96] + v[(i + 48) % 96];
      }
      for (int i = 0; i < 96; ++i) p[threadIdx.x + i * 1024] = v[i];
    })");
  KernelStore store(settings_);
  const auto kernel = store.get(in_directory("spill.cu", "spill"));
  EXPECT_GT(kernel->resources->spill_store_bytes, 0);
  EXPECT_GT(kernel->resources->spill_load_bytes, 0);
}

TEST_F(WithCompiler, ErrorsShowFileAndLineOfTheSource) {
  write_source("good.cu", "#include \"tile/bad.cuh\"\ntemplate <int n> __global__ void f() {}\n");
  write_source("tile/bad.cuh", "#pragma once\n\ninline int g() { return undefined_name; }\n");
  KernelStore store(settings_);
  EXPECT_THAT([&] { store.get(in_directory("good.cu", "f<1>")); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("kernels/tile/bad.cuh(3): error:"),
                                               HasSubstr("undefined_name"), HasSubstr("f<1>"),
                                               HasSubstr("sm_90a"))));
  EXPECT_THAT(store.list(), IsEmpty());
}

TEST_F(WithCompiler, ErrorsInTheMainFileAndInASnippetShowTheirLines) {
  write_source("main.cu", "\n__global__ void f(float* p) { *p = score(1.0f)\n}\n");
  KernelStore store(settings_);
  KernelRequest request = in_directory("main.cu", "f");
  request.snippet = "__device__ float score(float x) { return x; }";
  EXPECT_THAT([&] { store.get(request); },
              ThrowsMessage<DeviceError>(HasSubstr("kernels/main.cu(3): error:")));
  request.snippet = "\n__device__ float score(float x) { return y; }";
  EXPECT_THAT([&] { store.get(request); },
              ThrowsMessage<DeviceError>(HasSubstr("snippet(2): error:")));
}

TEST_F(WithCompiler, UnknownEntrySourceAndArchitecture) {
  KernelStore store(settings_);
  KernelRequest request = softmax();
  request.entry = "jfa::examples::no_such_kernel";
  EXPECT_THAT([&] { store.get(request); }, ThrowsMessage<DeviceError>(HasSubstr("no_such_kernel")));
  request = softmax();
  request.entry.clear();
  EXPECT_THAT([&] { store.get(request); },
              ThrowsMessage<InvalidArgument>(HasSubstr("entry is empty")));
  request = softmax();
  request.source = "none.cu";
  EXPECT_THAT([&] { store.get(request); },
              ThrowsMessage<InvalidArgument>(HasSubstr("'none.cu' does not exist")));
  request = softmax();
  request.options = {"JFA=1"};
  EXPECT_THAT([&] { store.get(request); },
              ThrowsMessage<InvalidArgument>(HasSubstr("'JFA=1' does not start with '-'")));
  request = softmax();
  request.architecture = "hopper";
  EXPECT_THAT([&] { store.get(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("'hopper'")));
  request.architecture = "sm_999";
  EXPECT_THAT([&] { store.get(request); }, ThrowsMessage<Unsupported>(HasSubstr("sm_90")));
}

TEST_F(WithCompiler, DeviceCodeCannotIncludeFilesOfTheMachine) {
  write_source("outside.cu", "#include \"" + fs::absolute(__FILE__).string() +
                                 "\"\nextern \"C\" __global__ void f() {}\n");
  write_source("neighbour.cu", "#include \"CMakeLists.txt\"\n__global__ void f() {}\n");
  KernelStore store(settings_);
  EXPECT_THROW(store.get(in_directory("outside.cu", "f")), DeviceError);
  EXPECT_THROW(store.get(in_directory("neighbour.cu", "f")), DeviceError);
}

TEST_F(WithCompiler, DiskCacheServesTheNextProcessEvenWithoutACompiler) {
  const auto made = KernelStore(settings_).get(softmax());
  KernelStore next(without_compiler());
  const auto read = next.get(softmax());
  EXPECT_EQ(read->image, made->image);
  EXPECT_EQ(read->symbol, made->symbol);
  EXPECT_EQ(read->resources, made->resources);
  EXPECT_EQ(read->request, softmax());
}

TEST_F(WithCompiler, KeyCoversEverythingThatChangesTheCode) {
  write_source("a.cu", "#include \"b.cuh\"\n__global__ void f(int* p) { *p = VALUE + JFA_N; }\n");
  write_source("b.cuh", "constexpr int VALUE = 1;\n");
  KernelRequest request = in_directory("a.cu", "f");
  request.options = {"-DJFA_N=1"};
  KernelStore(settings_).get(request);
  EXPECT_THAT(KernelStore(settings_).list(), SizeIs(1));
  request.options = {"-DJFA_N=2"};
  KernelStore(settings_).get(request);
  EXPECT_THAT(KernelStore(settings_).list(), SizeIs(2));
  request.architecture = "sm_100a";
  KernelStore(settings_).get(request);
  EXPECT_THAT(KernelStore(settings_).list(), SizeIs(3));
  request.snippet = "// mine";
  KernelStore(settings_).get(request);
  EXPECT_THAT(KernelStore(settings_).list(), SizeIs(4));
  request.kind = ImageKind::ptx;
  KernelStore(settings_).get(request);
  EXPECT_THAT(KernelStore(settings_).list(), SizeIs(5));
  write_source("b.cuh", "constexpr int VALUE = 2;\n");
  KernelStore(settings_).get(request);
  EXPECT_THAT(KernelStore(settings_).list(), SizeIs(6));
  KernelStore(settings_).get(request);
  EXPECT_THAT(KernelStore(settings_).list(), SizeIs(6));
}

TEST_F(WithCompiler, CachedRequestsAreThoseOfUnchangedSources) {
  write_source("a.cu", "__global__ void a() {}\n");
  write_source("b.cu", "__global__ void b() {}\n");
  KernelStore(settings_).get(in_directory("a.cu", "a"));
  KernelStore(settings_).get(in_directory("b.cu", "b"));
  EXPECT_THAT(KernelStore(settings_).cached_requests(), SizeIs(2));
  write_source("b.cu", "__global__ void b(int) {}\n");
  EXPECT_THAT(KernelStore(settings_).cached_requests(),
              ::testing::ElementsAre(in_directory("a.cu", "a")));
}

TEST_F(WithCompiler, DamagedEntryIsMadeAnew) {
  KernelStore(settings_).get(softmax());
  const fs::path file = KernelStore(settings_).list().at(0).file;
  fs::resize_file(file, fs::file_size(file) / 2);
  EXPECT_THAT(KernelStore(settings_).get(softmax())->image, StartsWith("\x7f"
                                                                       "ELF"));
  EXPECT_TRUE(KernelStore(settings_).list().at(0).kernel.has_value());
}

TEST_F(WithCompiler, LimitZeroAndUnwritableDirectoryKeepNothingAndStillWork) {
  Settings nothing = settings_;
  nothing.cache_limit_bytes = 0;
  KernelStore(nothing).get(softmax());
  EXPECT_FALSE(fs::exists(settings_.cache_directory));

  std::ofstream(directory_.path() / "file") << "x";
  Settings unwritable = settings_;
  unwritable.cache_directory = directory_.path() / "file";
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(KernelStore(unwritable).get(softmax())->image, StartsWith("\x7f"
                                                                        "ELF"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("JFA_CACHE_DIR"));
}

TEST_F(WithCompiler, ThreadsThatWantOneKernelCompileItOnce) {
  KernelStore store(settings_);
  std::vector<std::shared_ptr<const CompiledKernel>> kernels(8);
  std::vector<std::thread> threads;
  for (auto& kernel : kernels) {
    threads.emplace_back([&store, &kernel] { kernel = store.get(softmax(ImageKind::ptx)); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& kernel : kernels) {
    EXPECT_EQ(kernel, kernels[0]);
  }
}

TEST_F(WithCompiler, SixteenProcessesAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = false;
      try {
        good = KernelStore(settings_).get(softmax())->image.starts_with(
            "\x7f"
            "ELF");
      } catch (const Error&) {
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(KernelStore(settings_).list(), SizeIs(1));
}

TEST_F(WithCompiler, BundleWorksWithoutACompilerAndSurvivesDamageWithAClearError) {
  const fs::path bundle = directory_.path() / "bundle";
  const std::vector<KernelRequest> requests{softmax(), softmax(ImageKind::ptx)};
  const std::vector<fs::path> files = KernelStore(settings_).write_bundle(requests, bundle);
  ASSERT_THAT(files, SizeIs(2));

  Settings server;
  server.nvrtc = kNoCompiler;
  server.bundles = {directory_.path() / "another", bundle};
  KernelStore store(server);
  EXPECT_THAT(store.get(requests[0])->image, StartsWith("\x7f"
                                                        "ELF"));
  EXPECT_THAT(store.get(requests[1])->image, HasSubstr(".target sm_90a"));

  KernelRequest other = softmax();
  other.options = {"-DOTHER"};
  EXPECT_THAT([&] { store.get(other); },
              ThrowsMessage<DeviceError>(
                  AllOf(HasSubstr("nvidia-cuda-nvrtc"), HasSubstr(kNoCompiler.string()))));
  fs::resize_file(files[0], 100);
  EXPECT_THROW(KernelStore(server).get(requests[0]), DeviceError);
}

TEST(KernelStore, WithoutCompilerSaysWhatToDo) {
  Settings settings;
  settings.nvrtc = kNoCompiler;
  KernelStore store(settings);
  EXPECT_THAT([&] { store.compiler(); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("JFA_NVRTC"), HasSubstr("jfa bundle"))));
  EXPECT_THAT(store.list(), IsEmpty());
  EXPECT_EQ(store.clear(), 0U);
}

TEST(KernelStore, LibraryThatIsNoCompiler) {
  Settings settings;
  settings.nvrtc = "/proc/self/exe";
  KernelStore store(settings);
  EXPECT_THROW(store.compiler(), DeviceError);
}

TEST(KernelResources, Printed) {
  KernelResources resources{.registers = 168, .static_shared_bytes = 1024, .barriers = 3};
  EXPECT_EQ(to_string(resources),
            "168 registers, no spills, 1024 bytes of static shared memory, 3 barriers");
  resources.spill_load_bytes = 8;
  EXPECT_THAT(to_string(resources), HasSubstr("8 BYTES SPILLED"));
}

TEST(Settings, ReadFromTheEnvironment) {
  setenv("JFA_CACHE_DIR", "/a", 1);
  setenv("JFA_CACHE_LIMIT", "3M", 1);
  setenv("JFA_BUNDLE", "/b::/c", 1);
  Settings settings = settings_from_environment();
  EXPECT_EQ(settings.cache_directory, "/a");
  EXPECT_EQ(settings.cache_limit_bytes, 3U << 20);
  EXPECT_EQ(settings.bundles, (std::vector<fs::path>{"/b", "/c"}));
  unsetenv("JFA_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(settings_from_environment().cache_directory, "/x/jfa");
  for (const char* wrong : {"much", "-1", "3MB", "99999999999999G", "1 M"}) {
    setenv("JFA_CACHE_LIMIT", wrong, 1);
    EXPECT_THAT([] { settings_from_environment(); },
                ThrowsMessage<InvalidArgument>(HasSubstr(wrong)));
  }
  for (const char* name : {"JFA_CACHE_LIMIT", "JFA_BUNDLE", "XDG_CACHE_HOME"}) {
    unsetenv(name);
  }
}

}  // namespace
}  // namespace jfa::jit
