#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "../memory/packed_matrix.h"
#include "bindings.h"

namespace okibi {
namespace {

using Rows8 = Array<const std::uint8_t, 2>;
using Outputs = Array<const std::int32_t, 1>;

void write(PackedMatrix& matrix, const Rows8& rows, const Outputs& outputs) {
  require(rows.shape(0) == outputs.shape(0), "there must be an output for every row");
  require(rows.shape(1) == matrix.row_bytes(), "the rows have the wrong number of bytes");
  const nb::gil_scoped_release released;
  for (std::size_t row = 0; row < rows.shape(0); ++row) {
    require(outputs(row) >= 0, "the matrix has no such output");
    matrix.write_row(static_cast<std::size_t>(outputs(row)), &rows(row, 0));
  }
}

}  // namespace

void bind_weights(nb::module_& m) {
  nb::class_<WeightMemory>(m, "WeightMemory").def(nb::init<>());
  nb::class_<PackedMatrix>(m, "PackedMatrix")
      .def(nb::init<std::shared_ptr<WeightMemory>, const std::string&, std::size_t, std::size_t>(),
           nb::arg("memory"), nb::arg("source"), nb::arg("num_outputs"), nb::arg("num_inputs"))
      .def("write", &write, nb::arg("rows"), nb::arg("outputs"))
      .def_prop_ro("num_outputs", [](const PackedMatrix& m) { return m.weights().num_outputs; })
      .def_prop_ro("num_inputs", [](const PackedMatrix& m) { return m.weights().num_inputs; })
      .def_prop_ro("row_bytes", &PackedMatrix::row_bytes)
      .def_prop_ro("num_bytes", &PackedMatrix::num_bytes);
}

}  // namespace okibi
