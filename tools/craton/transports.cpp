#include "transports.hpp"

#include <fmt/format.h>

#include <cstring>

#include "fabric/ucx/ucx.hpp"

namespace craton::tools {
namespace {

TransportReport report_shm(const job::MachineFacts& facts) {
  if (facts.memfd_errno != 0)
    return {"shm", false, fmt::format("memfd: {}", std::strerror(facts.memfd_errno))};
  return {"shm", true,
          "memory of neighbours mapped from memfds; never offloaded, since operations are plain copies"};
}

TransportReport report_tcp(const job::MachineFacts& facts) {
  std::string addresses;
  for (const job::NetworkInterface& interface : facts.interfaces) {
    if (!interface.up || interface.addresses.empty()) continue;
    addresses +=
        fmt::format("{}{} {}", addresses.empty() ? "" : ", ", interface.name, interface.addresses.front());
  }
  if (addresses.empty()) return {"tcp", false, "no network interface is up and has an address"};
  return {"tcp", true, addresses};
}

TransportReport report_ucx(const job::MachineFacts& facts) {
  const fabric::ucx::UcxAvailability ucx = fabric::ucx::ucx_availability();
  if (!ucx.available()) return {"ucx", false, ucx.reason_why_not};
  std::string devices;
  for (const std::string& device : facts.rdma_devices) devices += " " + device;
  return {"ucx", true,
          fmt::format("UCX {}, {}", ucx.version, devices.empty() ? "no RDMA device" : "RDMA:" + devices)};
}

}  // namespace

std::vector<TransportReport> report_transports(const job::MachineFacts& facts) {
  return {report_shm(facts), report_tcp(facts), report_ucx(facts)};
}

}  // namespace craton::tools
