/// \file
/// Elements in a row that belong together.
#pragma once

#include <cstddef>
#include <span>

namespace craton {

/// Calls `action` with each run of elements, in order. \param belongs whether an element goes on with the run
/// of the one before it: called with that one, then with the element
template <typename Element, typename Belongs, typename Action>
void for_runs(std::span<Element> elements, const Belongs& belongs, const Action& action) {
  for (std::size_t begin = 0; begin < elements.size();) {
    std::size_t end = begin + 1;
    while (end < elements.size() && belongs(elements[end - 1], elements[end])) ++end;
    action(elements.subspan(begin, end - begin));
    begin = end;
  }
}

/// Runs of numbers of which each is the next after the one before it.
template <typename Number, typename Action>
void for_runs(std::span<Number> numbers, const Action& action) {
  for_runs(
      numbers, [](const Number& before, const Number& number) { return number == before + 1; }, action);
}

}  // namespace craton
