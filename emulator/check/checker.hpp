// The emulator's checkers behind one door. They listen to the machine and put findings into a sink.
#pragma once

#include <memory>

#include "exec/observer.hpp"

namespace ptxemu::check {

/// A checker for one device. It hears of allocations and host writes for as long as it lives, and
/// of the launches in between, one at a time. The sink must outlive it.
std::unique_ptr<exec::LaunchObserver> make_checker(const Checks& checks, exec::ReportSink& sink);

}  // namespace ptxemu::check
