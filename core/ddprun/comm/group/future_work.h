// A c10d::Work made of a future.
#pragma once

#include <ATen/core/ivalue.h>

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

namespace ddprun {

class FutureWork : public c10d::Work {
 public:
  explicit FutureWork(c10::intrusive_ptr<c10::ivalue::Future> future)
      : future_(std::move(future)) {}
  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->hasValue(); }
  std::exception_ptr exception() const override { return future_->exception_ptr(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  /// Who is about to wait may do the work meanwhile, if it has not begun. Throws nothing.
  virtual void help() {}
  bool wait(std::chrono::milliseconds = kNoTimeout) override {
    help();
    future_->waitAndThrow();
    return true;
  }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace ddprun
