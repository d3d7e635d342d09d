// Row intervals against the visibility rules of docs/contract.md, key by key, for all small cases.
#include "attention/intervals.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace jfa::kernels {
namespace {

long long floor_divide(long long a, long long b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

bool hstu_visible(const MaskParameters& m, long long p, long long j, long long length) {
  if (p < 0 || p >= length) return false;
  const long long last =
      m.contextual > 0 ? length - m.contextual + 1 - m.targets : length - m.targets;
  const auto id = [&](long long x) {
    const long long counted = m.contextual > 0 ? std::max(x - m.contextual + 1, 0LL) : x;
    return std::min(counted, last);
  };
  long long d = id(p) - id(j);
  if (m.hstu_causal == 0) d = std::llabs(d);
  const long long target = length - m.targets;
  const bool same_group =
      p >= j && j >= target && (p - target) / m.target_group == (j - target) / m.target_group;
  const bool inside = m.max_attention_length == 0 || d <= m.max_attention_length ||
                      (m.min_full_attention > 0 && id(p) >= last - m.min_full_attention);
  return ((p == j || d > 0 || same_group) && inside) ||
         (m.contextual > 0 && id(p) == 0 && id(j) < last);
}

bool visible(const MaskParameters& m, long long row, long long j, long long lq, long long lk) {
  const long long p = m.bottom_right != 0 ? row + lk - lq : row;
  switch (m.kind) {
    case MaskParameters::causal:
      return j <= p;
    case MaskParameters::window:
      return (m.left < 0 || p - m.left <= j) && (m.right < 0 || j <= p + m.right);
    case MaskParameters::prefix_local:
      return j <= p && (j < m.prefix || j > p - m.local);
    case MaskParameters::blocks:
      return floor_divide(j, m.block) == floor_divide(p, m.block);
    case MaskParameters::hstu:
      return hstu_visible(m, p, j, lk);
    default:
      return true;
  }
}

void expect_same(const MaskParameters& m, long long lq, long long lk) {
  for (long long row = 0; row < lq; ++row) {
    const RowIntervals got = row_intervals(m, row, lq, lk);
    ASSERT_TRUE(0 <= got.lo0 && got.lo0 <= got.hi0 && got.hi0 <= got.lo1 && got.lo1 <= got.hi1 &&
                got.hi1 <= lk);
    for (long long j = 0; j < lk; ++j) {
      const bool seen = (got.lo0 <= j && j < got.hi0) || (got.lo1 <= j && j < got.hi1);
      ASSERT_EQ(seen, visible(m, row, j, lq, lk))
          << "kind " << m.kind << " row " << row << " key " << j << " lengths " << lq << " " << lk
          << " C " << m.contextual << " t " << m.targets << " group " << m.target_group << " W "
          << m.max_attention_length << " F " << m.min_full_attention << " causal " << m.hstu_causal;
    }
  }
}

void for_all_lengths(const std::function<void(long long, long long)>& test) {
  for (const long long lq : {1, 2, 5, 9}) {
    for (const long long lk : {1, 2, 5, 9}) test(lq, lk);
  }
}

TEST(RowIntervals, SimpleMasksSeeWhatTheContractSays) {
  for_all_lengths([](long long lq, long long lk) {
    for (const int bottom_right : {0, 1}) {
      MaskParameters m;
      m.bottom_right = bottom_right;
      expect_same(m, lq, lk);
      m.kind = MaskParameters::causal;
      expect_same(m, lq, lk);
      for (long long a = -1; a < 6; ++a) {
        for (long long b = -1; b < 6; ++b) {
          m.kind = MaskParameters::window;
          m.left = a;
          m.right = b;
          expect_same(m, lq, lk);
          m.kind = MaskParameters::prefix_local;
          m.prefix = std::max(a, 0LL);
          m.local = std::max(b, 0LL);
          expect_same(m, lq, lk);
        }
        m.kind = MaskParameters::blocks;
        m.block = a + 2;
        expect_same(m, lq, lk);
      }
    }
  });
}

TEST(RowIntervals, HstuSeesWhatTheContractSays) {
  for_all_lengths([](long long lq, long long lk) {
    MaskParameters m;
    m.kind = MaskParameters::hstu;
    for (m.bottom_right = 0; m.bottom_right < 2; ++m.bottom_right) {
      for (m.hstu_causal = 0; m.hstu_causal < 2; ++m.hstu_causal) {
        for (m.targets = 0; m.targets <= lk; m.targets += 2) {
          for (m.contextual = 0; m.contextual <= lk - m.targets; ++m.contextual) {
            for (const long long group : {1, 2, 3}) {
              for (const long long window : {0, 1, 3}) {
                for (const long long full : {0, 1, 4}) {
                  m.target_group = group;
                  m.max_attention_length = window;
                  m.min_full_attention = full;
                  expect_same(m, lq, lk);
                }
              }
            }
          }
        }
      }
    }
  });
}

TEST(RowIntervals, NormalizedMergesAndOrders) {
  const auto text = [](const RowIntervals& r) {
    return std::to_string(r.lo0) + "-" + std::to_string(r.hi0) + " " + std::to_string(r.lo1) + "-" +
           std::to_string(r.hi1);
  };
  EXPECT_EQ(text(normalized(5, 8, 1, 3, 10)), "1-3 5-8");
  EXPECT_EQ(text(normalized(1, 4, 3, 8, 10)), "1-8 8-8");
  EXPECT_EQ(text(normalized(1, 4, 4, 8, 10)), "1-8 8-8");
  EXPECT_EQ(text(normalized(2, 2, 4, 30, 10)), "4-10 10-10");
  EXPECT_EQ(text(normalized(-5, 0, 12, 30, 10)), "0-0 0-0");
}

TEST(RowIntervals, ClassifyTellsSkippedFullAndPartialBlocks) {
  MaskParameters m;
  m.kind = MaskParameters::causal;
  RowIntervals rows[4];
  for (int i = 0; i < 4; ++i) rows[i] = row_intervals(m, 4 + i, 12, 12);
  EXPECT_EQ(classify(rows, 4, 0, 4), Visibility::full);
  EXPECT_EQ(classify(rows, 4, 4, 8), Visibility::partial);
  EXPECT_EQ(classify(rows, 4, 8, 12), Visibility::skipped);
}

}  // namespace
}  // namespace jfa::kernels
