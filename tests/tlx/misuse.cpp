// Mistakes that must not compile; CMakeLists.txt compiles each and looks for the message.
#include "tlx/named_barriers.h"
#include "tlx/shared_plan.h"

using namespace jfa::tlx;

struct Large : Region<200000, 1024> {};
struct Small : Region<100000, 16> {};
struct Many : NamedBarrier<128, 16> {};
struct One : NamedBarrier<32> {};

#if defined(TOO_LARGE)
constexpr u32 kValue = SharedPlan<Distinct<Large, Small>>::kBytes;
#elif defined(NOT_IN_PLAN)
constexpr u32 kValue = SharedPlan<Distinct<Large>>::offset<Small>;
#elif defined(TWICE_IN_PLAN)
constexpr u32 kValue = SharedPlan<Distinct<Small, Small>>::offset<Small>;
#elif defined(TOO_MANY_BARRIERS)
constexpr u32 kValue = NamedBarriers<Many>::id<Many>;
#elif defined(TWICE_IN_REGISTRY)
constexpr u32 kValue = NamedBarriers<One, One>::id<One>;
#elif defined(NOT_IN_REGISTRY)
constexpr u32 kValue = NamedBarriers<Many>::id<One>;
#elif defined(PART_OF_A_WARP)
constexpr u32 kValue = NamedBarrier<100>::kThreads;
#endif
