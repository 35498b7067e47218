/// Answers find who has asked, or nobody any more.
#include "fabric/questions.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace craton::fabric {
namespace {

struct Question {
  int answer = 0;
};

TEST(Questions, AnswersComeToWhoHasAsked) {
  Questions<Question> all;
  Question first;
  Question second;
  const Questions<Question>::Asked asked_first(all, first);
  const Questions<Question>::Asked asked_second(all, second);
  EXPECT_NE(asked_first.number(), asked_second.number());
  all.answered(asked_second.number(), [](Question& question) { question.answer = 2; });
  EXPECT_EQ(first.answer, 0);
  EXPECT_EQ(second.answer, 2);
}

TEST(Questions, NoAnswerComesToWhoHasGivenUp) {
  Questions<Question> all;
  Question question;
  std::optional<Questions<Question>::Asked> asked;
  asked.emplace(all, question);
  const std::uint64_t number = asked->number();
  asked.reset();
  asked.emplace(all, question);  // the next question has a number of its own
  all.answered(number, [](Question& late) { late.answer = 1; });
  EXPECT_EQ(question.answer, 0);
}

}  // namespace
}  // namespace craton::fabric
