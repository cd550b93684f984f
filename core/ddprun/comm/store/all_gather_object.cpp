// A round of texts, and one of nothing to say that they were read.
#include "ddprun/comm/store/all_gather_object.h"

#include <fmt/format.h>

#include "ddprun/comm/store/store_round.h"

namespace ddprun {

namespace {

std::string place_of(int rank, int size, const std::string& round) {
  return fmt::format("rank {} of {}, {}", rank, size, round);
}

}  // namespace

std::vector<std::string> all_gather_object(c10d::Store& store, const std::string& round, int rank,
                                           int size, const std::string& text,
                                           std::chrono::milliseconds timeout,
                                           const std::vector<int>& members) {
  const std::string where = place_of(rank, size, round);
  StoreRound said(store, round, size, where, members);
  StoreRound read(store, round + "/read", size, where, members);
  said.bring(rank, text);
  said.wait(timeout);
  std::vector<std::string> texts = said.texts();
  read.bring(rank);
  if (rank == 0) {  // nobody needs the keys any more when all have read them
    read.wait(timeout);
    said.remove();
    read.remove();
  }
  return texts;
}

std::vector<std::string> gather_object(c10d::Store& store, const std::string& round, int rank,
                                       int size, const std::string& text,
                                       std::chrono::milliseconds timeout) {
  StoreRound said(store, round, size, place_of(rank, size, round));
  said.bring(rank, text);
  if (rank != 0) return {};
  said.wait(timeout);
  std::vector<std::string> texts = said.texts();
  said.remove();
  return texts;
}

}  // namespace ddprun
