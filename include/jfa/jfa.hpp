// Everything public.
#pragma once

#include "jfa/attention.hpp"
#include "jfa/check.hpp"
#include "jfa/device.hpp"
#include "jfa/error.hpp"
#include "jfa/kernel_choice.hpp"
#include "jfa/plan.hpp"
#include "jfa/problem.hpp"
#include "jfa/tensor.hpp"
