// The formulas, and how far rounding takes each of their terms.
#include "ddprun/proof/exact_update.h"

#include <cmath>

namespace ddprun {

namespace {

/// Roundings of float32 that a term of an update may have gone through.
constexpr double kTerm = 32 * 0x1p-24;
/// The same of a parameter, which is multiplied once and has one term added.
constexpr double kParameter = 2 * 0x1p-24;
/// Beyond them float32 has few bits, or none.
constexpr double kSmallest = 1e-36, kLargest = 1e37;

/// A number and by how much what rounded may be off.
struct Exact {
  double value = 0, bound = 0;
};

/// Two terms, each rounded.
Exact sum_of(double a, double b) { return {a + b, kTerm * (std::abs(a) + std::abs(b))}; }

bool near(Exact exact, double got, double rounding) {
  // What overflows, or comes of what did, shows in the loss.
  if (!(std::abs(exact.value) < kLargest) || !std::isfinite(got)) return true;
  const double bound = exact.bound + 2 * rounding * std::abs(exact.value) + kSmallest;
  return std::abs(got - exact.value) <= bound;
}

bool follows_adamw(const UpdateRule& rule, const UpdatedElement& before, double gradient,
                   const UpdatedElement& made, UpdateRounding rounding) {
  const double beta1 = rule.config.betas[0], beta2 = rule.config.betas[1];
  const auto updates = static_cast<double>(rule.updates);
  const double lr = rule.lr * rule.settings.lr_scale, g = gradient * rule.gradient_scale;
  // Kernels compute m + (1 - beta1) (g - m).
  const Exact mean = {beta1 * before.moments[0] + (1 - beta1) * g,
                      kTerm * (std::abs(before.moments[0]) + std::abs(g))};
  const Exact square = sum_of(beta2 * before.moments[1], (1 - beta2) * g * g);
  const double size = std::sqrt(square.value / (1 - std::pow(beta2, updates))) + rule.config.eps;
  const double step = lr / (1 - std::pow(beta1, updates)) / size;
  const double decayed = before.parameter * (1 - lr * rule.settings.weight_decay);
  const double of_moments = (kTerm + 4 * rounding.moments) * std::abs(mean.value);
  const Exact parameter = {decayed - step * mean.value,
                           kParameter * std::abs(decayed) + step * (mean.bound + of_moments)};
  const bool has_bits =
      std::isfinite(made.moments[1]) &&
      (square.value == 0 || (square.value > kSmallest && square.value < kLargest));
  return near(mean, made.moments[0], rounding.moments) &&
         near(square, made.moments[1], rounding.moments) &&
         (!has_bits || near(parameter, made.parameter, rounding.parameter));
}

bool follows_sgd(const UpdateRule& rule, const UpdatedElement& before, double gradient,
                 const UpdatedElement& made, UpdateRounding rounding) {
  Exact step =
      sum_of(gradient * rule.gradient_scale, rule.settings.weight_decay * before.parameter);
  if (rule.config.momentum != 0) {
    const double kept = rule.config.momentum * before.moments[0];
    step = {step.value + kept, step.bound + kTerm * std::abs(kept)};
    if (!near(step, made.moments[0], rounding.moments)) return false;
  }
  const double lr = rule.lr * rule.settings.lr_scale;
  const Exact parameter = {
      before.parameter - lr * step.value,
      kParameter * std::abs(before.parameter) +
          lr * (step.bound + (kTerm + 4 * rounding.moments) * std::abs(step.value))};
  return near(parameter, made.parameter, rounding.parameter);
}

}  // namespace

bool follows(const UpdateRule& rule, const UpdatedElement& before, double gradient,
             const UpdatedElement& made, UpdateRounding rounding) {
  const bool adamw = rule.config.name == OptimizerKind::adamw;
  return (adamw ? follows_adamw : follows_sgd)(rule, before, gradient, made, rounding);
}

}  // namespace ddprun
