// A c10d::Work made of a future.
#pragma once

#include <ATen/core/ivalue.h>

#include <exception>
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

/// A work that has failed.
inline c10::intrusive_ptr<FutureWork> failed_work(std::exception_ptr why) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
  future->setError(std::move(why));
  return c10::make_intrusive<FutureWork>(std::move(future));
}

}  // namespace ddprun
