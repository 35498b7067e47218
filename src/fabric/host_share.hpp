/// \file
/// How ranks share a host's processors, whatever their nodes: isolated ones (`--isolate-nodes`) do as well.
#pragma once

#include <string>

#include "fabric/types.hpp"

namespace craton::fabric {

/// Not thread-safe.
class HostShare {
 public:
  /// What a rank tells the others: a bit for each processor that it may use.
  static std::string own_processors();
  /// One more rank of the host, this one included. \param processors what it has told
  void add(const std::string& processors);

  Rank ranks() const noexcept { return ranks_; }
  /// How many each rank can have to itself; 0 if there are more ranks.
  Rank processors_a_rank() const noexcept { return processors() / ranks_; }
  /// Whether not every rank has a processor of its own.
  bool is_crowded() const noexcept { return ranks_ > processors(); }
  /// Whether no processor is left where each computes on one.
  bool is_full() const noexcept { return ranks_ >= processors(); }

 private:
  /// How many there are that any of the ranks may use.
  Rank processors() const noexcept;

  Rank ranks_ = 0;
  std::string all_;
};

}  // namespace craton::fabric
