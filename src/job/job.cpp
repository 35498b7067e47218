#include "job/job.hpp"

#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/events.hpp"
#include "job/rank_process.hpp"

namespace craton::job {

namespace {

using fabric::Rank;
using fabric::Status;

/// A job without other ranks.
class SoloBootstrap final : public fabric::Bootstrap {
 public:
  SoloBootstrap() {
    if (::getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size())) {
      throw Error::from_errno("cannot make the secret of the job", errno);
    }
  }
  Rank rank() const noexcept override { return 0; }
  Rank size() const noexcept override { return 1; }
  const fabric::JobSecret& secret() const noexcept override { return secret_; }
  std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }

 private:
  fabric::JobSecret secret_{};
};

/// A number that the launcher has put into the environment. \throws Error invalid_argument
std::uint32_t number_from(const char* variable, std::uint32_t below) {
  const char* text = std::getenv(variable);
  std::uint32_t number = 0;
  const char* const end = text == nullptr ? nullptr : text + std::strlen(text);
  if (text == nullptr || std::from_chars(text, end, number).ptr != end || text == end || number >= below) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = std::string("cannot join the job that ") + control_variable + " speaks of",
                 .happened = std::string(variable) + " is " +
                             (text == nullptr ? "not set" : "'" + std::string(text) + "'"),
                 .limit = {},
                 .remedy = std::string("leave these variables to craton run; unset ") + control_variable +
                           " to run the program alone"});
  }
  return number;
}

UniqueFd control_socket() {
  const int fd = static_cast<int>(number_from(control_variable, 1U << 30U));
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot join the job",
                 .happened = "descriptor " + std::to_string(fd) + " (" + control_variable +
                             ") is no socket: whoever started "
                             "this program has closed it",
                 .limit = {},
                 .remedy = std::string("start the program by craton run itself, or unset ") +
                           control_variable + " to run it alone"});
  }
  return UniqueFd(fd);
}

/// Other launchers start ranks that we could not tell from jobs of one: that would be a wrong answer,
/// silently.
void refuse_unknown_launcher() {
  const char* size = std::getenv("PMI_SIZE");
  if (size == nullptr || std::atoi(size) <= 1) return;
  throw Error(
      ErrorCode::not_supported,
      {.asked = "cannot find this rank's place in the job",
       .happened = std::string("the launcher has started ") + size + " processes and speaks PMI-1, not PMIx",
       .limit = {},
       .remedy =
           "use craton run, Open MPI's mpirun or srun --mpi=pmix; unset PMI_SIZE to run the program alone"});
}

}  // namespace

const char* version() noexcept {
  return CRATON_VERSION;
}

fabric::WiredOptions wired_options_from(const Options& options) {
  fabric::WiredOptions wired;
  wired.network = options.text(Option::transport);
  wired.isolate_nodes = options.flag(Option::isolate_nodes);
  wired.spin_ns = options.duration_ns(Option::spin);
  wired.connect_timeout_ns = options.duration_ns(Option::connect_timeout);
  wired.tcp_interface = options.text(Option::tcp_interface);
  wired.tcp_link = {.delay_ns = options.duration_ns(Option::link_delay),
                    .bytes_per_second = options.bytes(Option::link_bandwidth)};
  wired.ring_bytes = options.bytes(Option::ring_bytes);
  const std::string& offload = options.text(Option::offload);
  wired.offload = {.mode = offload == "static"    ? fabric::offload::OffloadMode::fixed
                           : offload == "dynamic" ? fabric::offload::OffloadMode::dynamic
                                                  : fabric::offload::OffloadMode::direct,
                   .endpoints = static_cast<unsigned>(options.integer(Option::endpoints)),
                   .workers = static_cast<unsigned>(options.integer(Option::offload_workers))};
  return wired;
}

Job::Found Job::find(const Clock& clock, const Options& options) {
  Found found;
  const TimeNs timeout_ns = options.duration_ns(Option::connect_timeout);
  if (std::getenv(control_variable) != nullptr) {
    const Rank size = number_from(size_variable, fabric::max_ranks + 1);
    const Rank rank = number_from(rank_variable, size);
    UniqueFd socket = control_socket();
    // Children of this process are no ranks.
    for (const char* variable : {control_variable, rank_variable, size_variable}) ::unsetenv(variable);
    auto control = std::make_unique<ControlChannel>(clock, std::move(socket), rank, size, timeout_ns);
    found.control = control.get();
    found.bootstrap = std::move(control);
  } else if (PmixBootstrap::present()) {
    auto pmix = PmixBootstrap::connect(options.text(Option::pmix_library), timeout_ns);
    found.pmix = pmix.get();
    found.bootstrap = std::move(pmix);
  } else {
    refuse_unknown_launcher();
    found.bootstrap = std::make_unique<SoloBootstrap>();
  }
  return found;
}

std::unique_ptr<Job> Job::join() {
  const Options options = Options::from_environment(environ);
  auto clock = std::make_unique<SteadyClock>();
  Found found = find(*clock, options);
  return std::unique_ptr<Job>(new Job(std::move(clock), std::move(found), options));
}

Job::Job(std::unique_ptr<Clock> clock, Found found, const Options& options)
    : options_(options),
      clock_(std::move(clock)),
      found_(std::move(found)),
      fabric_(*found_.bootstrap, wired_options_from(options), *clock_),
      barrier_(fabric_, barrier_handler) {
  set_activity(Activity::computing, 0);
  fabric_.set_peer_lost_handler(&Job::peer_lost, this);
  if (found_.control == nullptr) return;
  const ControlChannel::Handlers handlers{.activity = [this] { return activity(); },
                                          .lost = [this](Rank rank) { fabric_.declare_lost(rank); },
                                          .look = [this] { return look(); }};
  watched_ = true;
  fabric_.progress().watch(found_.control->fd(),
                           [this, handlers] { return found_.control->serve(handlers); });
  found_.control->send_ready();
}

Job::~Job() {
  if (watched_) fabric_.progress().unwatch(found_.control->fd());
  fabric_.progress().stop();  // before what its handlers use is destroyed: the barrier goes before the fabric
}

void Job::peer_lost(void* context, Rank peer) noexcept {
  Job& job = *static_cast<Job*>(context);
  std::int64_t none = -1;
  const bool first = job.first_lost_.compare_exchange_strong(none, peer);
  if (job.found_.control != nullptr) return job.found_.control->report_peer_lost(peer);
  if (job.found_.pmix == nullptr || !first) return;
  // No launcher of ours ends this job, and other launchers let ranks wait for a dead one. All ranks come here
  // at the same time; the lowest one speaks for all, and the others give it time to, unless it cannot. They
  // block a handler for that, which does no harm: this rank has nothing left to do.
  bool lowest = true;
  for (Rank rank = 0; rank < job.rank(); ++rank) lowest = lowest && !job.fabric_.alive(rank);
  const std::string line = "craton: rank " + std::to_string(job.rank()) + " (pid " +
                           std::to_string(::getpid()) + ") lost rank " + std::to_string(peer) +
                           ", which has died; ending the job\n";
  if (lowest) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());  // best effort
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  job.found_.pmix->abort(1, line);
  ::_exit(1);
}

void Job::set_activity(Activity activity, std::uint64_t barrier) noexcept {
  // Read together they may belong to two moments; they are for a message to people only.
  activity_since_ns_.store(clock_->now_ns(), std::memory_order_relaxed);
  activity_.store(static_cast<std::uint64_t>(activity) << 56U | barrier, std::memory_order_release);
}

RankActivity Job::activity() const noexcept {
  const std::uint64_t word = activity_.load(std::memory_order_acquire);
  return {.rank = rank(),
          .activity = static_cast<Activity>(word >> 56U),
          .barrier = word & ((std::uint64_t{1} << 56U) - 1),
          .since_ns = static_cast<std::uint64_t>(clock_->now_ns() -
                                                 activity_since_ns_.load(std::memory_order_relaxed))};
}

RankLook Job::look() const noexcept {
  return {.rank = rank(), .at_ns = static_cast<std::uint64_t>(clock_->now_ns()), .look = events::look()};
}

void Job::fail(const char* asked, Status status) const {
  const std::int64_t lost = first_lost_.load();
  throw Error(status == Status::peer_lost ? ErrorCode::peer_lost : ErrorCode::timed_out,
              {.asked = asked,
               .happened = status != Status::peer_lost ? "the time limit passed"
                           : lost < 0                  ? "a rank has died"
                                                       : "rank " + std::to_string(lost) + " has died",
               .limit = {},
               .remedy = {}});
}

void Job::barrier() {
  const std::uint64_t number = barrier_.arrivals() + 1;
  set_activity(Activity::in_barrier, number);
  const Status status = barrier_.wait();
  set_activity(Activity::computing, number);
  if (status != Status::ok) fail("cannot pass craton_barrier", status);
}

void Job::finalize() {
  set_activity(Activity::in_finalize, barrier_.arrivals());
  const Status status = fabric_.farewell(no_deadline);
  if (status != Status::ok) fail("cannot end the job in order", status);
  if (found_.control == nullptr) return;
  fabric_.progress().unwatch(found_.control->fd());
  watched_ = false;
  found_.control->send_finalized();
}

void Job::end(int exit_code) noexcept {
  constexpr int patience_ms = 10'000;
  try {
    if (found_.control != nullptr) {
      found_.control->send_ended(static_cast<std::uint8_t>(exit_code));
      // Leaving first would look like death to the others, and they would say so.
      ::poll(nullptr, 0, patience_ms);
    }
  } catch (const Error&) {  // the node has gone, and this process will
  }
  ::_exit(exit_code);
}

}  // namespace craton::job
