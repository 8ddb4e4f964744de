// Result.h - the one error type of everything without LLVM. A function that
// can fail returns Result<T> (or Status where there is nothing to return); no
// exception crosses an interface.
#ifndef DS4_RUNTIME_RESULT_H
#define DS4_RUNTIME_RESULT_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace ds4 {

/// What kind of thing is at fault; decides nothing but lets callers react.
enum class ErrorCode {
  invalidInput, ///< a file, bundle, option or prompt that we refuse
  ioError,      ///< the operating system refused a file operation
  outOfMemory,  ///< admission failed before anything was allocated
  deviceError,  ///< a kernel, driver or JIT failed
  cancelled,    ///< the user asked to stop
};

/// One sentence for the user: what was found, where, what to do.
struct Error {
  ErrorCode code;
  std::string text;
};

/// A value or an Error. Test it before use; DS4_TRY passes the error on.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value(std::move(value)) {}
  Result(Error error) : failure(std::move(error)) {}

  explicit operator bool() const { return value.has_value(); }
  T &operator*() {
    assert(value && "dereferenced a failed Result");
    return *value;
  }
  const T &operator*() const {
    assert(value && "dereferenced a failed Result");
    return *value;
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }
  const Error &error() const {
    assert(!value && "asked a good Result for its error");
    return failure;
  }

private:
  std::optional<T> value;
  Error failure{};
};

/// Success or an Error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::move(error)) {}
  static Status ok() { return {}; }

  explicit operator bool() const { return !failure; }
  const Error &error() const {
    assert(failure && "asked a good Status for its error");
    return *failure;
  }

private:
  std::optional<Error> failure;
};

inline Error invalidInput(std::string text) {
  return {ErrorCode::invalidInput, std::move(text)};
}
inline Error ioError(std::string text) {
  return {ErrorCode::ioError, std::move(text)};
}

} // namespace ds4

/// Evaluates a Status or Result expression and returns its error from the
/// calling function if it failed.
#define DS4_TRY(expr)                                                          \
  do {                                                                         \
    if (auto ds4Status = (expr); !ds4Status)                                   \
      return ds4Status.error();                                                \
  } while (false)

/// DS4_ASSIGN(auto x, f()): declares or assigns the value of a Result, or
/// returns its error from the calling function.
#define DS4_ASSIGN(lhs, expr) DS4_ASSIGN_IMPL(lhs, expr, __COUNTER__)
#define DS4_ASSIGN_IMPL(lhs, expr, id) DS4_ASSIGN_PASTE(lhs, expr, id)
#define DS4_ASSIGN_PASTE(lhs, expr, id)                                        \
  auto ds4Result##id = (expr);                                                 \
  if (!ds4Result##id)                                                          \
    return ds4Result##id.error();                                              \
  lhs = std::move(*ds4Result##id)

#endif // DS4_RUNTIME_RESULT_H
