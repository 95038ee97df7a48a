// Chained BLAKE2b-128 digests over fixed-size units. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace okibi {

constexpr std::size_t kDigestBytes = 16;

// Writes one 16-byte digest per complete unit of `data` to `digests`:
// digest_i = BLAKE2b-128(digest_{i-1} || unit_i), where digest_{-1} is `parent`.
void chain_digests(const std::uint8_t* parent, const std::uint8_t* data, std::size_t num_units,
                   std::size_t unit_bytes, std::uint8_t* digests);

}  // namespace okibi
