/// \file
/// OMP_PLACES and OMP_PROC_BIND: which places there are, and who sits where.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "omp/places.hpp"

namespace craton::omp::test {

namespace {

/// A folder like /sys/devices/system, of two sockets with two cores of two threads each, numbered as Linux
/// does: first one thread of each core. Each socket is a NUMA domain, and its cores share a cache.
class Places : public testing::Test {
 protected:
  Places() {
    std::string pattern = std::filesystem::temp_directory_path() / "craton-places-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    for (unsigned cpu = 0; cpu < 8; ++cpu) {
      const unsigned core = cpu % 4;
      const std::string folder = "cpu/cpu" + std::to_string(cpu);
      write(folder + "/topology/thread_siblings_list", std::to_string(core) + "," + std::to_string(core + 4));
      write(folder + "/topology/core_siblings_list", core < 2 ? "0-1,4-5" : "2-3,6-7");
      write(folder + "/cache/index0/level", "1");
      write(folder + "/cache/index0/shared_cpu_list", std::to_string(cpu));
      write(folder + "/cache/index3/level", "3");
      write(folder + "/cache/index3/shared_cpu_list", core < 2 ? "0-1,4-5" : "2-3,6-7");
    }
    write("node/node0/cpulist", "0-1,4-5");
    write("node/node1/cpulist", "2-3,6-7");
  }
  ~Places() override { std::filesystem::remove_all(root_); }

  Topology topology(std::vector<std::uint32_t> usable = {0, 1, 2, 3, 4, 5, 6, 7}) const {
    return Topology(std::move(usable), root_);
  }
  /// What the value stands for, written out; "none" if it makes no sense.
  std::string places_of(const char* value) const {
    Reader reader(value);
    const auto list = take_places(reader, topology());
    return list && reader.is_at_end() ? text_of(list->places) : "none";
  }

 private:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  std::string root_;
};

/// Of all threads of a team: place, and the partition where it is not the whole.
std::vector<std::uint32_t> seats_of(const Seat& starter, Binding binding, std::uint32_t threads) {
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < threads; ++i)
    places.push_back(seat_of_thread(starter, binding, i, threads).place);
  return places;
}

using List = std::vector<std::uint32_t>;

TEST_F(Places, Kinds) {
  EXPECT_EQ(places_of("threads"), "{0},{4},{1},{5},{2},{6},{3},{7}");
  EXPECT_EQ(places_of("cores"), "{0,4},{1,5},{2,6},{3,7}");
  EXPECT_EQ(places_of(" Sockets "), "{0:2,4:2},{2:2,6:2}");
  EXPECT_EQ(places_of("ll_caches"), "{0:2,4:2},{2:2,6:2}");
  EXPECT_EQ(places_of("numa_domains"), "{0:2,4:2},{2:2,6:2}");
  EXPECT_EQ(places_of("cores(2)"), "{0,4},{1,5}");
  EXPECT_EQ(places_of("cores(9)"), "{0,4},{1,5},{2,6},{3,7}");
  EXPECT_EQ(places_of("cores(0)"), "none");
  EXPECT_EQ(places_of("boards"), "none");
}

TEST_F(Places, OnlyOfUsableProcessors) {
  const Topology few = topology({1, 2, 5});
  EXPECT_EQ(text_of(few.places(PlaceKind::threads)), "{1},{5},{2}");
  EXPECT_EQ(text_of(few.places(PlaceKind::cores)), "{1,5},{2}");
  Reader reader("{0:2}:4:2");
  const auto list = take_places(reader, few);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->asked_for, 4U);
  EXPECT_EQ(text_of(list->places), "{1},{2},{5}");
}

TEST_F(Places, WithoutATopologyProcessorsAreCores) {
  const Topology flat({0, 1, 2, 3}, "/nowhere");
  EXPECT_EQ(text_of(flat.places(PlaceKind::cores)), "{0},{1},{2},{3}");
  EXPECT_EQ(text_of(flat.places(PlaceKind::sockets)), "{0:4}");
  EXPECT_EQ(text_of(flat.places(PlaceKind::ll_caches)), "{0:4}");
  EXPECT_EQ(text_of(flat.places(PlaceKind::numa_domains)), "{0:4}");
}

TEST_F(Places, Lists) {
  EXPECT_EQ(places_of("{0,1},{2:2}, {6}"), "{0:2},{2:2},{6}");
  EXPECT_EQ(places_of("{0:4:2}"), "{0,2,4,6}");
  EXPECT_EQ(places_of("{6:4:-2}"), "{0,2,4,6}");
  EXPECT_EQ(places_of("{0:8,!3,!5:2}"), "{0:3,4,7}");
  EXPECT_EQ(places_of("{6,7}:4:-2,!{2,3}"), "{6:2},{4:2},{0:2}");
  EXPECT_EQ(places_of("{0:2}:2:4"), "{0:2},{4:2}");
  EXPECT_EQ(places_of("0, 3"), "{0},{3}");
  EXPECT_EQ(places_of("0:2"), "{0},{1}");
  EXPECT_EQ(places_of("{0:2},6:3:-2,!4"), "{0:2},{6},{2}");
  EXPECT_EQ(places_of("{+0:+2}:+2:+4"), "{0:2},{4:2}");
  EXPECT_EQ(places_of("{100}"), "");
  for (const char* const wrong : {"", "{", "{}", "{0", "{0:0}", "{-1}", "-1", "0,", "0:0", "{0},", "{0}:0",
                                  "!{0}:2", "{0:x}", "{0:2:- 1}", "{0:2:+-1}", "{0:2:-+1}", "{++0}", "{+ 0}"})
    EXPECT_EQ(places_of(wrong), "none") << wrong;
}

TEST_F(Places, CpuAffinity) {
  const auto places = [&](const char* value) -> std::string {
    Reader reader(value);
    const auto list = take_cpu_affinity(reader, topology());
    return list ? text_of(list->places) : "none";
  };
  EXPECT_EQ(places("0 3 1-2 4-7:2"), "{0},{3},{1},{2},{4},{6}");
  EXPECT_EQ(places("2,1"), "{2},{1}");
  EXPECT_EQ(places("3-1"), "none");
  EXPECT_EQ(places("1-4:0"), "none");
  EXPECT_EQ(places("x"), "none");
}

TEST(Seats, RanksOfANodeDivideItsPlaces) {
  EXPECT_EQ(seat_of_rank(8, 0, 2), (Seat{.place = 0, .first = 0, .count = 4}));
  EXPECT_EQ(seat_of_rank(8, 1, 2), (Seat{.place = 4, .first = 4, .count = 4}));
  EXPECT_EQ(seat_of_rank(5, 1, 2), (Seat{.place = 2, .first = 2, .count = 3}));
  EXPECT_EQ(seat_of_rank(2, 2, 4), (Seat{.place = 0, .first = 0, .count = 1}));
  EXPECT_EQ(seat_of_rank(2, 3, 4), (Seat{.place = 1, .first = 1, .count = 1}));
  EXPECT_EQ(seat_of_rank(0, 1, 2).count, 0U);
}

TEST(Seats, Close) {
  const Seat starter{.place = 2, .first = 0, .count = 4};
  EXPECT_EQ(seats_of(starter, Binding::close, 3), (List{2, 3, 0}));
  EXPECT_EQ(seats_of(starter, Binding::any, 4), (List{2, 3, 0, 1}));
  EXPECT_EQ(seats_of(starter, Binding::close, 8), (List{2, 2, 3, 3, 0, 0, 1, 1}));
  // The two that are left go one by one to the first places.
  EXPECT_EQ(seats_of(starter, Binding::close, 6), (List{2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(seat_of_thread(starter, Binding::close, 1, 3).count, 4U);
}

TEST(Seats, Primary) {
  const Seat starter{.place = 2, .first = 0, .count = 4};
  EXPECT_EQ(seats_of(starter, Binding::primary, 3), (List{2, 2, 2}));
}

TEST(Seats, Spread) {
  const Seat starter{.place = 0, .first = 0, .count = 8};
  EXPECT_EQ(seats_of(starter, Binding::spread, 2), (List{0, 4}));
  EXPECT_EQ(seat_of_thread(starter, Binding::spread, 1, 2), (Seat{.place = 4, .first = 4, .count = 4}));
  // Parts of three, three and two places; the starter stays where it is, within its part.
  const Seat inside{.place = 4, .first = 0, .count = 8};
  EXPECT_EQ(seats_of(inside, Binding::spread, 3), (List{4, 6, 0}));
  EXPECT_EQ(seat_of_thread(inside, Binding::spread, 0, 3), (Seat{.place = 4, .first = 3, .count = 3}));
  EXPECT_EQ(seat_of_thread(inside, Binding::spread, 1, 3), (Seat{.place = 6, .first = 6, .count = 2}));
  // More threads than places: each has one.
  const Seat narrow{.place = 1, .first = 0, .count = 2};
  EXPECT_EQ(seats_of(narrow, Binding::spread, 4), (List{1, 1, 0, 0}));
  EXPECT_EQ(seat_of_thread(narrow, Binding::spread, 3, 4), (Seat{.place = 0, .first = 0, .count = 1}));
}

}  // namespace

}  // namespace craton::omp::test
