// Errors the library throws. Every message says what is wrong (argument and value), what is
// allowed, and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace jfa {

// Base of everything thrown on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An argument has a wrong shape, stride, value or alignment. Python: ValueError.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

// An argument has a wrong data type or kind. Python: TypeError.
class InvalidType : public Error {
 public:
  using Error::Error;
};

// A legal request that this engine, device or build does not serve. Python: NotImplementedError.
class Unsupported : public Error {
 public:
  using Error::Error;
};

// A device, driver, compiler or file failed. Python: RuntimeError.
class DeviceError : public Error {
 public:
  using Error::Error;
};

}  // namespace jfa
