// Python bindings of okibi._native: argument checks, buffers and the GIL. No algorithms here.
#include <Python.h>
#include <nanobind/nanobind.h>

#include "../chain_hash.h"
#include "bindings.h"

namespace nb = nanobind;

namespace {

// Below this size, letting other threads in costs more than hashing.
constexpr Py_ssize_t kReleaseGilBytes = 16 * 1024;

class ReadBuffer {
 public:
  explicit ReadBuffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~ReadBuffer() { PyBuffer_Release(&view_); }
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;

  const std::uint8_t* data() const { return static_cast<const std::uint8_t*>(view_.buf); }
  Py_ssize_t size() const { return view_.len; }

 private:
  Py_buffer view_;
};

nb::bytes chain_digests(nb::bytes parent, nb::object data, Py_ssize_t unit_bytes) {
  if (parent.size() != okibi::kDigestBytes) throw nb::value_error("parent must be 16 bytes");
  if (unit_bytes <= 0) throw nb::value_error("unit_bytes must be positive");
  const ReadBuffer buffer(data);
  const std::size_t num_units = static_cast<std::size_t>(buffer.size() / unit_bytes);

  PyObject* digests = PyBytes_FromStringAndSize(nullptr, num_units * okibi::kDigestBytes);
  if (digests == nullptr) throw nb::python_error();
  auto* out = reinterpret_cast<std::uint8_t*>(PyBytes_AsString(digests));
  const auto* root = reinterpret_cast<const std::uint8_t*>(parent.c_str());
  const auto run = [&] { okibi::chain_digests(root, buffer.data(), num_units, unit_bytes, out); };
  if (buffer.size() >= kReleaseGilBytes) {
    nb::gil_scoped_release released;
    run();
  } else {
    run();
  }
  return nb::steal<nb::bytes>(digests);
}

}  // namespace

NB_MODULE(_native, m) {
  m.def("chain_digests", &chain_digests, nb::arg(), nb::arg(), nb::arg());
  okibi::bind_weights(m);
  okibi::bind_kernels(m);
  okibi::bind_decoder(m);
}
