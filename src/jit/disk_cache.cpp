#include "jit/disk_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <random>
#include <system_error>
#include <thread>

#include "jfa/error.hpp"
#include "jit/entry_file.hpp"

namespace jfa::jit {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kExtension = ".kernel";
constexpr std::string_view kTemporaryPrefix = ".writing-";
constexpr std::chrono::minutes kAbandonedAfter{10};

class File {
 public:
  File(const fs::path& path, int flags, mode_t mode = 0)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  bool close() {
    const bool closed = descriptor_ < 0 || ::close(descriptor_) == 0;
    descriptor_ = -1;
    return closed;
  }
  bool write_all(std::string_view data) const {
    while (!data.empty()) {
      const ssize_t written = ::write(descriptor_, data.data(), data.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written <= 0) {
        return false;
      }
      data.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }
  std::optional<std::string> read_all() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      return std::nullopt;
    }
    std::string data(static_cast<std::size_t>(status.st_size), '\0');
    std::size_t done = 0;
    while (done < data.size()) {
      const ssize_t count = ::read(descriptor_, data.data() + done, data.size() - done);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return std::nullopt;
      }
      done += static_cast<std::size_t>(count);
    }
    return data;
  }

 private:
  int descriptor_;
};

bool is_entry(const fs::path& path) {
  return path.extension() == kExtension;
}

bool is_temporary(const fs::path& path) {
  return path.filename().native().starts_with(kTemporaryPrefix);
}

// Calls `visit` for each file; a directory that is missing, or that changes meanwhile, is no error.
template <typename Visit>
void for_each_file(const fs::path& directory, const Visit& visit) {
  std::error_code error;
  for (auto it = fs::directory_iterator(directory, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    visit(it->path());
  }
}

// A name no other writer uses. Process ids would not do: containers that share a directory all have
// a process 1.
fs::path temporary_name(const fs::path& directory) {
  std::random_device random;
  return directory / fmt::format("{}{:08x}{:08x}", kTemporaryPrefix, random(), random());
}

std::uint64_t bytes_of(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

// Number of this key's byte in the lock file.
off_t lock_offset(std::string_view key) {
  std::uint64_t value = 0;
  std::from_chars(key.data(), key.data() + std::min<std::size_t>(key.size(), 15), value, 16);
  return static_cast<off_t>(value);  // 60 bits: never negative
}

}  // namespace

// One lock file serves all keys: each locks its own byte. Locks that belong to the open file (OFD)
// also exclude the threads of one process.
KeyLock::KeyLock(const fs::path& directory, std::string_view key, double timeout_seconds) {
  std::error_code error;
  fs::create_directories(directory, error);
  file_ = ::open((directory / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) {
    return;
  }
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = lock_offset(key);
  range.l_len = 1;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(timeout_seconds));
  while (::fcntl(file_, F_OFD_SETLK, &range) != 0 && (errno == EAGAIN || errno == EACCES) &&
         Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

KeyLock::~KeyLock() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

fs::path DiskCache::file_of(std::string_view key, std::string_view compiler) const {
  return directory_ / fmt::format("{}-{}{}", key, compiler, kExtension);
}

std::optional<CompiledKernel> DiskCache::load(std::string_view key,
                                              std::string_view compiler) const {
  std::vector<fs::path> candidates;
  if (!compiler.empty()) {
    candidates.push_back(file_of(key, compiler));
  } else {
    for_each_file(directory_, [&](const fs::path& path) {
      if (is_entry(path) && path.filename().native().starts_with(key)) {
        candidates.push_back(path);
      }
    });
    std::ranges::sort(candidates, std::greater{});
  }
  for (const fs::path& path : candidates) {
    const File file(path, O_RDONLY);
    if (!file.is_open()) {
      continue;
    }
    const std::optional<std::string> content = file.read_all();
    std::optional<CompiledKernel> kernel = content ? from_entry_file(*content) : std::nullopt;
    if (kernel) {
      ::futimens(file.descriptor(), nullptr);  // used now; fails harmlessly in a read-only bundle
      return kernel;
    }
    std::error_code error;
    fs::remove(path, error);
  }
  return std::nullopt;
}

fs::path DiskCache::store(std::string_view key, std::string_view compiler,
                          const CompiledKernel& kernel) const {
  const fs::path target = file_of(key, compiler);
  std::error_code error;
  fs::create_directories(directory_, error);
  const fs::path temporary = temporary_name(directory_);
  const auto fail = [&](std::string_view what) {
    const int code = errno;
    fs::remove(temporary, error);
    throw DeviceError(
        fmt::format("cannot {} a compiled kernel in '{}': {}; name another directory "
                    "in JFA_CACHE_DIR, or set JFA_CACHE_LIMIT=0 to keep nothing",
                    what, directory_.string(), std::strerror(code)));
  };
  File file(temporary, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (!file.is_open() || !file.write_all(to_entry_file(kernel))) {
    fail("write");
  }
  // Without the flush a power cut could leave a complete name with an incomplete content.
  if (::fsync(file.descriptor()) != 0 || !file.close()) {
    fail("flush");
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    fail("rename");
  }
  if (const File folder(directory_, O_RDONLY | O_DIRECTORY); folder.is_open()) {
    ::fsync(folder.descriptor());
  }
  return target;
}

void DiskCache::evict(std::uint64_t limit_bytes, const fs::path& keep) const {
  struct Candidate {
    fs::file_time_type last_used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Candidate> candidates;
  std::uint64_t total = 0;
  std::error_code error;
  for_each_file(directory_, [&](const fs::path& path) {
    const fs::file_time_type last_used = fs::last_write_time(path, error);
    if (error) {
      return;  // removed by another process meanwhile
    }
    if (is_temporary(path)) {
      if (fs::file_time_type::clock::now() - last_used > kAbandonedAfter) {
        fs::remove(path, error);
      }
    } else if (is_entry(path)) {
      candidates.push_back({last_used, bytes_of(path), path});
      total += candidates.back().bytes;
    }
  });
  if (total <= limit_bytes) {
    return;
  }
  std::ranges::sort(candidates, {}, &Candidate::last_used);
  for (const Candidate& candidate : candidates) {
    if (total <= limit_bytes) {
      break;
    }
    if (candidate.path != keep) {
      fs::remove(candidate.path, error);
      total -= candidate.bytes;
    }
  }
}

std::vector<CacheEntry> DiskCache::list() const {
  std::vector<CacheEntry> entries;
  for_each_file(directory_, [&](const fs::path& path) {
    std::error_code error;
    if (!is_entry(path)) {
      return;
    }
    CacheEntry entry{path, bytes_of(path), fs::last_write_time(path, error), std::nullopt};
    const File file(path, O_RDONLY);
    if (error || !file.is_open()) {
      return;
    }
    if (const std::optional<std::string> content = file.read_all()) {
      entry.kernel = from_entry_file(*content);
    }
    if (entry.kernel) {
      entry.kernel->image.clear();
    }
    entries.push_back(std::move(entry));
  });
  std::ranges::sort(entries, std::greater{}, &CacheEntry::last_used);
  return entries;
}

std::uint64_t DiskCache::clear() const {
  std::uint64_t freed = 0;
  for_each_file(directory_, [&](const fs::path& path) {
    std::error_code error;
    if (is_entry(path) || is_temporary(path)) {
      const std::uint64_t bytes = bytes_of(path);
      freed += fs::remove(path, error) ? bytes : 0;
    }
  });
  return freed;
}

}  // namespace jfa::jit
