#include "job/pmix_bootstrap.hpp"

#include <dlfcn.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.hpp"

#if defined(CRATON_HAVE_PMIX)
#include <pmix.h>
#endif

namespace craton::job {

bool PmixBootstrap::present() noexcept {
  return std::getenv("PMIX_RANK") != nullptr && std::getenv("PMIX_NAMESPACE") != nullptr;
}

#if defined(CRATON_HAVE_PMIX)

namespace {

struct CloseLibrary {
  void operator()(void* library) const noexcept { ::dlclose(library); }
};

/// The functions that we need, found by name. Only functions: the macros of pmix.h call others behind our
/// back.
class PmixLibrary {
 public:
  explicit PmixLibrary(const std::string& name) : library_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) {
      throw Error(ErrorCode::not_found,
                  {.asked = "cannot find this rank's place in the job through PMIx",
                   .happened = ::dlerror(),
                   .limit = {},
                   .remedy = "install libpmix2, or name the library with CRATON_PMIX_LIBRARY"});
    }
    find(init, "PMIx_Init");
    find(finalize, "PMIx_Finalize");
    find(abort, "PMIx_Abort");
    find(put, "PMIx_Put");
    find(commit, "PMIx_Commit");
    find(fence, "PMIx_Fence");
    find(get, "PMIx_Get");
    find(error_string, "PMIx_Error_string");
  }

  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Abort) abort = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;

 private:
  template <typename Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(::dlsym(library_.get(), symbol));
    if (function == nullptr) {
      throw Error(ErrorCode::not_supported, {.asked = "cannot use the PMIx library",
                                             .happened = std::string("it has no ") + symbol,
                                             .limit = {},
                                             .remedy = "name a newer one with CRATON_PMIX_LIBRARY"});
    }
  }
  std::unique_ptr<void, CloseLibrary> library_;
};

pmix_info_t make_info(const char* key) {
  pmix_info_t info{};
  std::strncpy(info.key, key, PMIX_MAX_KEYLEN);
  return info;
}

class LoadedPmix final : public PmixBootstrap {
 public:
  LoadedPmix(const std::string& library, TimeNs timeout_ns)
      : pmix_(library), timeout_s_(static_cast<int>(std::max<TimeNs>(timeout_ns / 1'000'000'000, 1))) {
    check(pmix_.init(&self_, nullptr, 0), "cannot reach the PMIx server that started this process");
    everyone_ = self_;
    everyone_.rank = PMIX_RANK_WILDCARD;
    read_size();
    share_secret();
  }
  ~LoadedPmix() override { pmix_.finalize(nullptr, 0); }
  LoadedPmix(const LoadedPmix&) = delete;
  LoadedPmix& operator=(const LoadedPmix&) = delete;

  fabric::Rank rank() const noexcept override { return self_.rank; }
  fabric::Rank size() const noexcept override { return size_; }
  const fabric::JobSecret& secret() const noexcept override { return secret_; }

  std::vector<std::string> exchange(const std::string& mine) override {
    const std::string key = next_key();
    put(key, mine);
    synchronise();
    std::vector<std::string> parts(size_);
    for (fabric::Rank source = 0; source < size_; ++source)
      parts[source] = source == rank() ? mine : get(source, key);
    return parts;
  }

  void abort(int exit_code, const std::string& why) noexcept override {
    pmix_.abort(exit_code, why.c_str(), nullptr, 0);
  }

 private:
  void check(pmix_status_t status, const char* asked) const {
    if (status == PMIX_SUCCESS) return;
    throw Error(status == PMIX_ERR_TIMEOUT ? ErrorCode::timed_out : ErrorCode::system,
                {.asked = asked,
                 .happened = std::string("PMIx says ") + pmix_.error_string(status),
                 .limit = {},
                 .remedy = {}});
  }

  void read_size() {
    pmix_value_t* value = nullptr;
    check(pmix_.get(&everyone_, PMIX_JOB_SIZE, nullptr, 0, &value), "cannot read the size of the job");
    const bool number = value->type == PMIX_UINT32;
    size_ = value->data.uint32;
    std::free(value);
    if (!number || size_ == 0 || size_ > fabric::max_ranks || self_.rank >= size_) {
      throw Error(ErrorCode::not_supported,
                  {.asked = "cannot join the job as rank " + std::to_string(self_.rank),
                   .happened = "PMIx says that it has " + std::to_string(size_) + " ranks",
                   .limit = "at most " + std::to_string(fabric::max_ranks),
                   .remedy = {}});
    }
  }

  /// Every key is written once: PMIx may keep what it has seen of one.
  std::string next_key() { return "craton.exchange." + std::to_string(exchanges_++); }

  void put(const std::string& key, const std::string& bytes) {
    pmix_value_t value{};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = const_cast<char*>(bytes.data());  // copied by PMIx_Put
    value.data.bo.size = bytes.size();
    check(pmix_.put(PMIX_GLOBAL, key.c_str(), &value), "cannot publish through PMIx");
    check(pmix_.commit(), "cannot publish through PMIx");
  }

  void synchronise() {
    std::array<pmix_info_t, 2> infos{make_info(PMIX_COLLECT_DATA), make_info(PMIX_TIMEOUT)};
    infos[0].value.type = PMIX_BOOL;
    infos[0].value.data.flag = true;
    infos[1].value.type = PMIX_INT;
    infos[1].value.data.integer = timeout_s_;
    check(pmix_.fence(&everyone_, 1, infos.data(), infos.size()), "cannot exchange addresses through PMIx");
  }

  std::string get(fabric::Rank source, const std::string& key) {
    pmix_proc_t process = self_;
    process.rank = source;
    pmix_value_t* value = nullptr;
    check(pmix_.get(&process, key.c_str(), nullptr, 0, &value), "cannot read what another rank published");
    std::string bytes;
    const bool fits = value->type == PMIX_BYTE_OBJECT;
    if (fits) {
      if (value->data.bo.size != 0) bytes.assign(value->data.bo.bytes, value->data.bo.size);
      std::free(value->data.bo.bytes);
    }
    std::free(value);
    if (!fits) {
      throw Error(ErrorCode::protocol,
                  {.asked = "cannot read what rank " + std::to_string(source) + " published",
                   .happened = "it has another type",
                   .limit = {},
                   .remedy = {}});
    }
    return bytes;
  }

  void share_secret() {
    std::string mine;
    if (rank() == 0) {
      mine.resize(secret_.size());
      if (::getrandom(mine.data(), mine.size(), 0) != static_cast<ssize_t>(mine.size())) {
        throw Error::from_errno("cannot make the secret of the job", errno);
      }
    }
    const std::string chosen = exchange(mine).front();
    if (chosen.size() != secret_.size()) check(PMIX_ERR_BAD_PARAM, "cannot read the secret of the job");
    std::copy(chosen.begin(), chosen.end(), secret_.begin());
  }

  PmixLibrary pmix_;
  const int timeout_s_;
  pmix_proc_t self_{};
  pmix_proc_t everyone_{};
  fabric::Rank size_ = 0;
  fabric::JobSecret secret_{};
  std::uint64_t exchanges_ = 0;
};

}  // namespace

std::unique_ptr<PmixBootstrap> PmixBootstrap::connect(const std::string& library, TimeNs timeout_ns) {
  return std::make_unique<LoadedPmix>(library, timeout_ns);
}

#else

std::unique_ptr<PmixBootstrap> PmixBootstrap::connect(const std::string& /*library*/, TimeNs /*timeout_ns*/) {
  throw Error(ErrorCode::not_supported,
              {.asked = "cannot find this rank's place in the job through PMIx",
               .happened = "Craton was built without the headers of PMIx",
               .limit = {},
               .remedy = "install libpmix-dev and build it again, or use craton run"});
}

#endif

}  // namespace craton::job
