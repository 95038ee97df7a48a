// BLAKE2b after RFC 7693, unkeyed, with 16 bytes of output, specialised for
// messages of the form digest || unit. The Python twin is core/chain_hash.py.
#include "chain_hash.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace okibi {
namespace {

constexpr std::size_t kBlockBytes = 128;
constexpr std::size_t kNumRounds = 12;
// RFC 7693 section 2.5: digest length, no key, fanout 1, depth 1.
constexpr std::uint64_t kParameterWord = 0x01010000ULL ^ kDigestBytes;

constexpr std::uint64_t kIv[8] = {
    0x6a09e667f3bcc908ULL, 0xbb67ae8584caa73bULL, 0x3c6ef372fe94f82bULL, 0xa54ff53a5f1d36f1ULL,
    0x510e527fade682d1ULL, 0x9b05688c2b3e6c1fULL, 0x1f83d9abfb41bd6bULL, 0x5be0cd19137e2179ULL,
};

// RFC 7693 section 2.7; rounds 10 and 11 repeat the first two rows.
constexpr std::uint8_t kSigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

inline std::uint64_t load_le64(const std::uint8_t* bytes) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
#else
  std::uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = (word << 8) | bytes[i];
  return word;
#endif
}

inline void store_le64(std::uint8_t* bytes, std::uint64_t word) {
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

inline std::uint64_t rotate_right(std::uint64_t word, int bits) {
  return (word >> bits) | (word << (64 - bits));
}

// The function G of RFC 7693 section 3.1.
inline void mix(std::uint64_t& a, std::uint64_t& b, std::uint64_t& c, std::uint64_t& d,
                std::uint64_t x, std::uint64_t y) {
  a += b + x;
  d = rotate_right(d ^ a, 32);
  c += d;
  b = rotate_right(b ^ c, 24);
  a += b + y;
  d = rotate_right(d ^ a, 16);
  c += d;
  b = rotate_right(b ^ c, 63);
}

// A round has its message order at compile time, so that every index is a constant.
template <std::size_t kRound>
inline void mix_round(std::uint64_t v[16], const std::uint64_t m[16]) {
  constexpr const std::uint8_t* s = kSigma[kRound % 10];
  mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
  mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
  mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
  mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
  mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
  mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
  mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
  mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
}

template <std::size_t... kRounds>
inline void mix_rounds(std::uint64_t v[16], const std::uint64_t m[16],
                       std::index_sequence<kRounds...>) {
  (mix_round<kRounds>(v, m), ...);
}

// The function F of RFC 7693 section 3.2; a message here is shorter than 2^64 bytes.
void compress(std::uint64_t state[8], const std::uint8_t* block, std::uint64_t num_bytes_so_far,
              bool is_last) {
  std::uint64_t m[16];
  for (int i = 0; i < 16; ++i) m[i] = load_le64(block + 8 * i);

  std::uint64_t v[16];
  std::copy(state, state + 8, v);
  std::copy(kIv, kIv + 8, v + 8);
  v[12] ^= num_bytes_so_far;
  if (is_last) v[14] = ~v[14];

  mix_rounds(v, m, std::make_index_sequence<kNumRounds>());
  for (int i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[i + 8];
}

void hash_link(const std::uint8_t* parent, const std::uint8_t* unit, std::size_t unit_bytes,
               std::uint8_t* digest) {
  std::uint64_t state[8];
  std::copy(kIv, kIv + 8, state);
  state[0] ^= kParameterWord;

  // The first block starts with the parent; whole blocks after it are read in place.
  std::uint8_t block[kBlockBytes] = {};
  std::memcpy(block, parent, kDigestBytes);
  const std::size_t head_bytes = std::min(unit_bytes, kBlockBytes - kDigestBytes);
  std::memcpy(block + kDigestBytes, unit, head_bytes);
  std::size_t done = kDigestBytes + head_bytes;
  const std::size_t total = kDigestBytes + unit_bytes;
  compress(state, block, done, done == total);

  while (done < total) {
    const std::uint8_t* next = unit + (done - kDigestBytes);
    const std::size_t left = total - done;
    if (left >= kBlockBytes) {
      done += kBlockBytes;
      compress(state, next, done, done == total);
    } else {
      std::memset(block, 0, kBlockBytes);
      std::memcpy(block, next, left);
      done += left;
      compress(state, block, done, true);
    }
  }
  store_le64(digest, state[0]);
  store_le64(digest + 8, state[1]);
}

}  // namespace

void chain_digests(const std::uint8_t* parent, const std::uint8_t* data, std::size_t num_units,
                   std::size_t unit_bytes, std::uint8_t* digests) {
  for (std::size_t i = 0; i < num_units; ++i) {
    std::uint8_t* digest = digests + i * kDigestBytes;
    hash_link(parent, data + i * unit_bytes, unit_bytes, digest);
    parent = digest;
  }
}

}  // namespace okibi
