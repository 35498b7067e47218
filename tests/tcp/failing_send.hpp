/// \file
/// Makes send() fail for reasons that a test cannot bring about, such as a kernel that is short of memory.
#pragma once

namespace craton::fabric::tcp {

/// The next send() of this process fails with this errno, and does nothing.
void fail_next_send(int errno_value) noexcept;
/// None has come since.
bool send_is_to_fail() noexcept;

}  // namespace craton::fabric::tcp
