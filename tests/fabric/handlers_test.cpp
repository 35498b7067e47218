/// \file
/// Messages that come before their handler, and those of a rank to itself.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "fabric/handlers.hpp"

namespace craton::fabric::test {
namespace {

constexpr HandlerId early = first_free_handler;
constexpr HandlerId other = first_free_handler + 1;

/// Notes who sent what.
void note(void* context, Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  std::string& notes = *static_cast<std::string*>(context);
  notes += std::to_string(source) + ':';
  notes.append(reinterpret_cast<const char*>(payload), bytes);
  notes += ' ';
}

void queue(Handlers& handlers, Rank source, HandlerId id, std::string_view text) {
  handlers.queue(source, id, reinterpret_cast<const std::byte*>(text.data()), text.size());
}
void deliver(Handlers& handlers, Rank source, HandlerId id, std::string_view text) {
  handlers.deliver(source, id, reinterpret_cast<const std::byte*>(text.data()), text.size());
}

}  // namespace

TEST(Handlers, AreCalledAtOnceWhereTheyAreSet) {
  Handlers handlers;
  std::string notes;
  handlers.set(early, note, &notes);
  deliver(handlers, 3, early, "a");
  EXPECT_EQ(notes, "3:a ");
  EXPECT_FALSE(handlers.poll());
}

TEST(Handlers, GetWhatCameBeforeThemInItsOrder) {
  Handlers handlers;
  std::string notes;
  deliver(handlers, 1, early, "a");
  deliver(handlers, 2, early, "b");
  EXPECT_FALSE(handlers.poll());
  EXPECT_TRUE(handlers.ready_to_sleep()) << "nobody could deliver them";
  handlers.set(early, note, &notes);
  EXPECT_FALSE(handlers.ready_to_sleep());
  deliver(handlers, 1, early, "c");
  EXPECT_EQ(notes, "") << "a later message passed earlier ones";
  EXPECT_TRUE(handlers.poll());
  EXPECT_EQ(notes, "1:a 2:b 1:c ");
  deliver(handlers, 1, early, "d");
  EXPECT_EQ(notes, "1:a 2:b 1:c 1:d ") << "nothing waits any more";
}

TEST(Handlers, AreNotHeldUpByAnotherThatIsMissing) {
  Handlers handlers;
  std::string notes;
  handlers.set(other, note, &notes);
  deliver(handlers, 0, early, "a");
  queue(handlers, 0, other, "b");
  EXPECT_FALSE(handlers.ready_to_sleep());
  EXPECT_TRUE(handlers.poll());
  EXPECT_EQ(notes, "0:b ");
  EXPECT_FALSE(handlers.poll());
  EXPECT_TRUE(handlers.ready_to_sleep());
}

TEST(Handlers, OfAWakeUpAreNone) {
  Handlers handlers;
  deliver(handlers, 1, wake_handler, "");
  EXPECT_FALSE(handlers.poll());
  queue(handlers, 0, wake_handler, "");
  EXPECT_FALSE(handlers.ready_to_sleep());
  EXPECT_TRUE(handlers.poll());
  EXPECT_TRUE(handlers.ready_to_sleep());
}

}  // namespace craton::fabric::test
