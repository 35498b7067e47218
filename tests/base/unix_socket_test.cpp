#include "base/unix_socket.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/unique_fd.hpp"

namespace craton {
namespace {

UniqueFd made_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/// The name that nobody else has, filled up to a length.
std::string own_name(std::size_t bytes) {
  std::string name = "craton-test-" + std::to_string(::getpid()) + "-";
  name.resize(bytes, 'x');
  return name;
}

TEST(AbstractAddress, NamesWhatListensUpToTheLongestName) {
  for (const std::size_t bytes : {std::size_t{40}, AbstractAddress::name_bytes_most}) {
    const AbstractAddress address(own_name(bytes));
    const UniqueFd listener = made_socket();
    const UniqueFd other = made_socket();
    EXPECT_NE(::connect(other.get(), address.get(), address.bytes()), 0) << "nobody listens yet";
    ASSERT_EQ(::bind(listener.get(), address.get(), address.bytes()), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    // The last byte tells names apart.
    std::string similar = own_name(bytes);
    similar.back() = 'y';
    const AbstractAddress elsewhere(similar);
    EXPECT_NE(::connect(other.get(), elsewhere.get(), elsewhere.bytes()), 0);
    EXPECT_EQ(::connect(other.get(), address.get(), address.bytes()), 0);
    const UniqueFd accepted(::accept(listener.get(), nullptr, nullptr));
    EXPECT_TRUE(is_same_user(other.get()));
    EXPECT_TRUE(is_same_user(accepted.get()));
  }
}

TEST(AbstractAddressDeathTest, RefusesALongerName) {
  const std::string name = own_name(AbstractAddress::name_bytes_most + 1);
  EXPECT_DEATH(AbstractAddress{name}, "name_bytes_most");
}

TEST(SameUser, IsNobodyBehindWhatIsNoSocket) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const UniqueFd in(ends[0]);
  const UniqueFd out(ends[1]);
  EXPECT_FALSE(is_same_user(in.get()));
}

}  // namespace
}  // namespace craton
