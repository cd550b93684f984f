// A machine with a stack: one function for each group of codes (Python's Lib/pickletools.py).
#include "ddprun/checkpoint/pickle.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace ddprun {

namespace {

[[noreturn]] void refuse_pickle(const std::string& why) { throw std::runtime_error(why); }

}  // namespace

Pickle::Pickle(std::string_view bytes) : bytes_(bytes) {
  while (step()) {
  }
  root_ = pop();
}

std::string_view Pickle::take(std::size_t bytes) {
  if (bytes > bytes_.size() - at_) refuse_pickle("a pickle that ends too early");
  const std::string_view out = bytes_.substr(at_, bytes);
  at_ += bytes;
  return out;
}

template <class Number>
Number Pickle::take_number() {
  Number number = 0;  // little-endian, as this processor is
  std::memcpy(&number, take(sizeof number).data(), sizeof number);
  return number;
}

std::string_view Pickle::take_line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) refuse_pickle("a pickle that ends too early");
  const std::string_view line = take(end - at_);
  take(1);
  return line;
}

void Pickle::push(PickledValue value) {
  stack_.push_back(values_.size());
  values_.push_back(std::move(value));
}

std::size_t Pickle::pop() {
  const std::size_t begin = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= begin) refuse_pickle("a pickle that takes what is not there");
  const std::size_t value = stack_.back();
  stack_.pop_back();
  return value;
}

std::vector<std::size_t> Pickle::pop_to_mark() {
  if (marks_.empty()) refuse_pickle("a pickle that goes back to a mark that is not there");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<std::size_t> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void Pickle::push_sequence(std::vector<std::size_t> items) {
  push({.kind = Kind::sequence, .items = std::move(items)});
}

void Pickle::add_to_top(const std::vector<std::size_t>& items) {
  const std::size_t top = pop();
  stack_.push_back(top);
  PickledValue& value = values_[top];
  if (value.kind == Kind::dict && items.size() % 2 != 0) refuse_pickle("a dict with half a pair");
  if (value.kind != Kind::dict && value.kind != Kind::sequence) return;  // of some object
  value.items.insert(value.items.end(), items.begin(), items.end());
}

bool Pickle::step() {
  const auto code = static_cast<unsigned char>(take(1).front());
  if (code == '.') return false;
  if (!step_scalar(code) && !step_container(code) && !step_memo(code)) step_object(code);
  return true;
}

bool Pickle::step_scalar(unsigned char code) {
  const auto number = [this](std::int64_t value) { push({.kind = Kind::number, .number = value}); };
  switch (code) {
    case 'N':  // NONE
      push({});
      return true;
    case 0x88:  // NEWTRUE, NEWFALSE
    case 0x89:
      number(code == 0x88 ? 1 : 0);
      return true;
    case 'K':  // BININT1, BININT2, BININT
      number(take_number<std::uint8_t>());
      return true;
    case 'M':
      number(take_number<std::uint16_t>());
      return true;
    case 'J':
      number(take_number<std::int32_t>());
      return true;
    case 0x8a: {  // LONG1: two's complement in as few bytes as it takes
      const std::string_view bytes = take(take_number<std::uint8_t>());
      std::int64_t value = bytes.empty() || bytes.back() >= 0 ? 0 : -1;
      if (bytes.size() > sizeof value) {
        push({});
        return true;
      }
      std::memcpy(&value, bytes.data(), bytes.size());
      number(value);
      return true;
    }
    case 'G':  // BINFLOAT
      take(8);
      push({});
      return true;
    case 'X':  // BINUNICODE
      push({.kind = Kind::text, .text = std::string(take(take_number<std::uint32_t>()))});
      return true;
    default:
      return false;
  }
}

bool Pickle::step_container(unsigned char code) {
  switch (code) {
    case '}':
      push({.kind = Kind::dict});
      return true;
    case ']':
    case ')':
      push_sequence({});
      return true;
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case 't':
      push_sequence(pop_to_mark());
      return true;
    case 0x85:  // TUPLE1 to TUPLE3
    case 0x86:
    case 0x87: {
      std::vector<std::size_t> items(code - 0x84);
      for (std::size_t i = items.size(); i > 0; --i) items[i - 1] = pop();
      push_sequence(std::move(items));
      return true;
    }
    case 's': {  // SETITEM
      const std::size_t value = pop(), key = pop();
      add_to_top({key, value});
      return true;
    }
    case 'a':  // APPEND
      add_to_top({pop()});
      return true;
    case 'u':  // SETITEMS, APPENDS
    case 'e':
      add_to_top(pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool Pickle::step_memo(unsigned char code) {
  const auto keep = [this](std::uint64_t place) {
    const std::size_t top = pop();
    stack_.push_back(top);
    memo_[place] = top;
  };
  const auto recall = [this](std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse_pickle("a pickle that recalls what it did not keep");
    stack_.push_back(found->second);
  };
  switch (code) {
    case 'q':  // BINPUT, LONG_BINPUT
      keep(take_number<std::uint8_t>());
      return true;
    case 'r':
      keep(take_number<std::uint32_t>());
      return true;
    case 'h':  // BINGET, LONG_BINGET
      recall(take_number<std::uint8_t>());
      return true;
    case 'j':
      recall(take_number<std::uint32_t>());
      return true;
    default:
      return false;
  }
}

void Pickle::call(std::size_t function, std::size_t arguments) {
  if (values_[function].text == "collections OrderedDict") {
    push({.kind = Kind::dict});
    return;
  }
  PickledValue value{.kind = Kind::call, .items = {function}};
  const std::vector<std::size_t>& items = values_[arguments].items;
  value.items.insert(value.items.end(), items.begin(), items.end());
  push(std::move(value));
}

void Pickle::step_object(unsigned char code) {
  switch (code) {
    case 0x80:  // PROTO
      if (take_number<std::uint8_t>() > 2)
        refuse_pickle("a pickle of a later protocol than 2, which torch.save takes");
      return;
    case 'c': {  // GLOBAL
      const std::string_view module = take_line(), name = take_line();
      push({.kind = Kind::global, .text = fmt::format("{} {}", module, name)});
      return;
    }
    case 'R':     // REDUCE
    case 0x81: {  // NEWOBJ
      const std::size_t arguments = pop(), function = pop();
      call(function, arguments);
      return;
    }
    case 'b':  // BUILD: attributes of the object below
      pop();
      return;
    case 'Q':  // BINPERSID
      push({.kind = Kind::external, .items = {pop()}});
      return;
    default:
      refuse_pickle(
          fmt::format("a pickle with code {:#04x}, which torch.save does not write", code));
  }
}

}  // namespace ddprun
