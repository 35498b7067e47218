// Counts the words of a text: a plain OpenMP program, whose threads keep maps and strings on the heap.
//
//   g++ -std=c++20 -O2 -fopenmp wordcount.cpp && ./a.out
//
// Argument: words (4000000). The text is drawn from a vocabulary, rare words and common ones, so how often
// each of them is in it is known.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using Counts = std::unordered_map<std::string, long>;

constexpr std::size_t vocabulary_words = 20'000;

std::string word(std::size_t rank) {
  const std::string_view syllables = "bacadefigohujekilomunaperisotuva";
  std::string text;
  for (std::size_t rest = rank + 1; rest > 0; rest /= 16) text += syllables.substr(2 * (rest % 16), 2);
  return text;
}

// Adds what was drawn to `drawn`.
std::string write_text(long words, Counts& drawn) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<std::string> vocabulary;
  for (std::size_t rank = 0; rank < vocabulary_words; ++rank) vocabulary.push_back(word(rank));
  std::vector<long> counts(vocabulary_words);
  std::string text;
  for (long written = 0; written < words; ++written) {
    const double chance = uniform(generator);
    const auto rank = static_cast<std::size_t>(chance * chance * chance * vocabulary_words);
    text += vocabulary[rank];
    text += written % 12 == 11 ? '\n' : ' ';
    ++counts[rank];
  }
  for (std::size_t rank = 0; rank < vocabulary_words; ++rank) {
    if (counts[rank] > 0) drawn[vocabulary[rank]] = counts[rank];
  }
  return text;
}

bool is_space(char character) {
  return character == ' ' || character == '\n';
}

// Where the first word begins that begins at or after `at`.
std::size_t word_start(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && !is_space(text[at - 1])) ++at;
  return at;
}

Counts count_part(std::string_view part) {
  Counts counts;
  for (std::size_t at = 0; at < part.size();) {
    std::size_t end = at;
    while (end < part.size() && !is_space(part[end])) ++end;
    if (end > at) ++counts[std::string(part.substr(at, end - at))];
    at = end + 1;
  }
  return counts;
}

// Each part of the text is counted by itself; then each share of all words is put together by itself.
Counts count_words(std::string_view text, std::size_t parts) {
  std::vector<Counts> by_part(parts);
  std::vector<Counts> by_share(parts);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t first = word_start(text, text.size() * part / parts);
      const std::size_t end = word_start(text, text.size() * (part + 1) / parts);
      by_part[part] = count_part(text.substr(first, end - first));
    }
#pragma omp for schedule(static)
    for (std::size_t share = 0; share < parts; ++share) {
      for (const Counts& counts : by_part) {
        for (const auto& [text_word, count] : counts) {
          if (std::hash<std::string>()(text_word) % parts == share) by_share[share][text_word] += count;
        }
      }
    }
  }
  Counts all;
  for (Counts& share : by_share) all.merge(share);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const long words = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 4'000'000;
  if (argc > 2 || words < 1 || words > 1'000'000'000) {
    std::fprintf(stderr, "%s: the argument is the words, 1 to 1000000000\n", argv[0]);
    return 2;
  }
  Counts drawn;
  const std::string text = write_text(words, drawn);
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads = 1;

  const auto start = std::chrono::steady_clock::now();
  const Counts counts = count_words(text, static_cast<std::size_t>(threads));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

  std::vector<std::pair<long, std::string>> most;
  for (const auto& [text_word, count] : counts) most.emplace_back(count, text_word);
  const std::size_t shown = std::min<std::size_t>(5, most.size());
  std::partial_sort(most.begin(), most.begin() + static_cast<std::ptrdiff_t>(shown), most.end(),
                    std::greater<>());
  for (std::size_t i = 0; i < shown; ++i) std::printf("  %9ld %s\n", most[i].first, most[i].second.c_str());
  std::printf("wordcount %ld words, %zu different: %d threads, %.3f s\n", words, counts.size(), threads,
              elapsed.count());
  const bool verified = counts == drawn;
  std::puts(verified ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  return verified ? 0 : 1;
}
