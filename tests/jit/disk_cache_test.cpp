#include "jit/disk_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "jfa/error.hpp"
#include "jit/entry_file.hpp"
#include "jit/hash.hpp"
#include "jit/temporary_directory.hpp"

namespace jfa::jit {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kCompiler = "13.0-1";

std::string key_of(int number) {
  return hash_name(std::to_string(number));
}

// The image follows from the number, so that a mix of two files would be seen.
CompiledKernel kernel_of(int number, std::size_t bytes = 1000) {
  CompiledKernel kernel;
  kernel.request.source = "a.cu";
  kernel.request.entry = std::to_string(number);
  kernel.image.assign(bytes, static_cast<char>('a' + number % 26));
  return kernel;
}

std::size_t count_files(const fs::path& directory, const std::string& part) {
  std::size_t count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    count += entry.path().filename().string().find(part) != std::string::npos ? 1 : 0;
  }
  return count;
}

void set_age(const fs::path& file, std::chrono::minutes age) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - age);
}

// Runs `body` in a process of its own, which ends with the status that it returns.
pid_t start_process(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  return child;
}

int exit_status(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(DiskCache, LoadsWhatWasStoredForThatCompiler) {
  const test::TemporaryDirectory directory;
  const DiskCache cache(directory.path() / "made" / "on demand");
  EXPECT_FALSE(cache.load(key_of(1), kCompiler).has_value());
  cache.store(key_of(1), kCompiler, kernel_of(1));
  EXPECT_EQ(cache.load(key_of(1), kCompiler)->image, kernel_of(1).image);
  EXPECT_FALSE(cache.load(key_of(2), kCompiler).has_value());
  EXPECT_FALSE(cache.load(key_of(1), "13.5-1").has_value());
  EXPECT_EQ(cache.load(key_of(1), "")->image, kernel_of(1).image) << "any compiler";
  EXPECT_EQ(count_files(cache.directory(), ".writing-"), 0U);
}

TEST(DiskCache, RemovesADamagedEntry) {
  const test::TemporaryDirectory directory;
  const DiskCache cache(directory.path());
  const fs::path file = cache.store(key_of(1), kCompiler, kernel_of(1));
  for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{500}}) {
    cache.store(key_of(1), kCompiler, kernel_of(1));
    fs::resize_file(file, size);
    ASSERT_EQ(cache.list().size(), 1U);
    EXPECT_FALSE(cache.list()[0].kernel.has_value());
    EXPECT_FALSE(cache.load(key_of(1), kCompiler).has_value());
    EXPECT_FALSE(fs::exists(file));
  }
}

TEST(DiskCache, EvictsTheLeastRecentlyUsedButNotTheNewest) {
  const test::TemporaryDirectory directory;
  const DiskCache cache(directory.path());
  std::vector<fs::path> files;
  for (int i = 0; i < 4; ++i) {
    files.push_back(cache.store(key_of(i), kCompiler, kernel_of(i)));
    set_age(files.back(), std::chrono::minutes(40 - i));
  }
  cache.load(key_of(0), kCompiler);  // the oldest is used again
  cache.evict(3 * fs::file_size(files[0]), files[3]);
  EXPECT_TRUE(fs::exists(files[0]));
  EXPECT_FALSE(fs::exists(files[1]));
  EXPECT_TRUE(fs::exists(files[2]));
  cache.evict(1, files[3]);
  EXPECT_EQ(count_files(directory.path(), ".kernel"), 1U);
  EXPECT_TRUE(fs::exists(files[3]));
}

TEST(DiskCache, EvictionRemovesWhatDeadWritersLeft) {
  const test::TemporaryDirectory directory;
  const DiskCache cache(directory.path());
  const fs::path kept = cache.store(key_of(1), kCompiler, kernel_of(1));
  const fs::path fresh = directory.path() / ".writing-fresh";
  const fs::path abandoned = directory.path() / ".writing-abandoned";
  std::ofstream(fresh) << "x";
  std::ofstream(abandoned) << "x";
  set_age(abandoned, std::chrono::minutes(60));
  cache.evict(1U << 20, kept);
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_FALSE(fs::exists(abandoned));
}

TEST(DiskCache, ListsMostRecentFirstWithoutImagesAndClears) {
  const test::TemporaryDirectory directory;
  const DiskCache cache(directory.path());
  set_age(cache.store(key_of(1), kCompiler, kernel_of(1)), std::chrono::minutes(5));
  const fs::path newest = cache.store(key_of(2), kCompiler, kernel_of(2));
  std::ofstream(directory.path() / "a user's file") << "stays";
  const std::vector<CacheEntry> entries = cache.list();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].file, newest);
  EXPECT_EQ(entries[0].bytes, fs::file_size(newest));
  EXPECT_EQ(entries[0].kernel->request.entry, "2");
  EXPECT_TRUE(entries[0].kernel->image.empty());
  EXPECT_EQ(cache.clear(), entries[0].bytes + entries[1].bytes);
  EXPECT_TRUE(cache.list().empty());
  EXPECT_TRUE(fs::exists(directory.path() / "a user's file"));
  EXPECT_EQ(DiskCache(directory.path() / "none").clear(), 0U);
}

TEST(DiskCache, UnwritableDirectoryIsAnErrorThatSaysWhatToDo) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "file") << "x";
  const DiskCache cache(directory.path() / "file");
  EXPECT_FALSE(cache.load(key_of(1), kCompiler).has_value());
  EXPECT_THAT([&] { cache.store(key_of(1), kCompiler, kernel_of(1)); },
              ThrowsMessage<DeviceError>(HasSubstr("JFA_CACHE_DIR")));
}

// Every process writes, reads and evicts the same few keys; some are killed at a random moment.
// Whatever a reader finds is whole.
TEST(DiskCache, SixteenProcessesSomeOfThemKilled) {
  const test::TemporaryDirectory directory;
  const DiskCache cache(directory.path());
  constexpr int kProcesses = 16;
  constexpr std::size_t kBytes = 100'000;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(start_process([&] {
      for (int round = 0; round < 20; ++round) {
        const int number = (process + round) % 5;
        const fs::path file = cache.store(key_of(number), kCompiler, kernel_of(number, kBytes));
        cache.evict(4 * kBytes, file);
        const int other = (number + 2) % 5;
        const std::optional<CompiledKernel> read = cache.load(key_of(other), kCompiler);
        if (read && read->image != kernel_of(other, kBytes).image) {
          return 1;
        }
      }
      return 0;
    }));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (int process = 0; process < kProcesses; process += 4) {
    kill(children[static_cast<std::size_t>(process)], SIGKILL);
  }
  for (int process = 0; process < kProcesses; ++process) {
    const int status = exit_status(children[static_cast<std::size_t>(process)]);
    if (process % 4 != 0) {
      EXPECT_EQ(status, 0) << "process " << process;
    }
  }
  for (const CacheEntry& entry : cache.list()) {
    EXPECT_TRUE(entry.kernel.has_value()) << entry.file;
  }
}

TEST(KeyLock, ExcludesThreadsOnTheSameKeyOnly) {
  const test::TemporaryDirectory directory;
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  const auto work = [&] {
    for (int i = 0; i < 20; ++i) {
      const KeyLock lock(directory.path(), key_of(1), 30);
      overlapped = overlapped || ++inside > 1;
      std::this_thread::yield();
      --inside;
    }
  };
  std::thread first(work);
  std::thread second(work);
  {
    const KeyLock held(directory.path(), key_of(2), 30);
    first.join();  // would wait 30 s if keys shared a lock
    second.join();
  }
  EXPECT_FALSE(overlapped);
}

TEST(KeyLock, IsFreeOnceItsHolderIsKilled) {
  const test::TemporaryDirectory directory;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = start_process([&] {
    const KeyLock lock(directory.path(), key_of(1), 1);
    if (write(ready[1], "x", 1) == 1) {
      pause();
    }
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto start = std::chrono::steady_clock::now();
  { const KeyLock waits(directory.path(), key_of(1), 0.05); }
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
  kill(holder, SIGKILL);
  exit_status(holder);
  { const KeyLock free(directory.path(), key_of(1), 600); }  // the test's time limit is shorter
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace jfa::jit
