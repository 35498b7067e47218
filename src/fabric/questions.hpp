/// \file
/// Questions to other ranks, asked and answered by messages: who waits for what. A thread keeps what its
/// question is about on its stack; the handler of answers finds it by a number that went along.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "fabric/fabric.hpp"

namespace craton::fabric {

/// By rank: whether its agent would serve each one-sided operation, so that one question costs less than two
/// of them.
inline std::vector<bool> ranks_to_ask(const Fabric& fabric) {
  std::vector<bool> asked;
  for (Rank rank = 0; rank < fabric.size(); ++rank)
    asked.push_back(!fabric.capabilities(rank).native_one_sided);
  return asked;
}

/// \tparam Question what an answer is written to
template <typename Question>
class Questions {
 public:
  /// One that answers are awaited for, as long as it lives: who has asked may give up, since a rank has died.
  class Asked {
   public:
    Asked(Questions& all, Question& question) : all_(all) {
      const std::lock_guard lock(all_.lock_);
      number_ = all_.next_++;
      all_.asked_.emplace(number_, &question);
    }
    /// With a number of the caller's, where all have one. One at a time with each.
    Asked(Questions& all, Question& question, std::uint64_t number) : all_(all), number_(number) {
      const std::lock_guard lock(all_.lock_);
      all_.asked_.emplace(number_, &question);
    }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
    ~Asked() {
      const std::lock_guard lock(all_.lock_);
      all_.asked_.erase(number_);
    }
    std::uint64_t number() const noexcept { return number_; }

   private:
    Questions& all_;
    std::uint64_t number_ = 0;
  };

  /// In a handler: calls `take` with the question of that number, unless nobody awaits answers to it any
  /// more.
  template <typename Take>
  void answered(std::uint64_t number, Take take) {
    const std::lock_guard lock(lock_);
    if (const auto found = asked_.find(number); found != asked_.end()) take(*found->second);
  }

 private:
  std::mutex lock_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Question*> asked_;
};

/// Of a thread that asks for a few words, which come in one answer.
template <typename Words>
class WordsQuestion {
 public:
  using All = Questions<WordsQuestion>;

  explicit WordsQuestion(All& all) : asked_(all, *this) {}

  std::uint64_t number() const noexcept { return asked_.number(); }
  bool is_answered() const noexcept { return answered_.load(std::memory_order_acquire); }
  /// By handlers.
  void answer(const Words& words) noexcept {
    answer_ = words;
    answered_.store(true, std::memory_order_release);
  }
  /// Once it is answered.
  const Words& answer() const noexcept { return answer_; }

 private:
  Words answer_{};
  std::atomic<bool> answered_{false};
  const typename All::Asked asked_;
};

}  // namespace craton::fabric
