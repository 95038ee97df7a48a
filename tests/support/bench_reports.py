"""What tests read from the reports of a replay."""

from okibi.bench.report import ReplayReport


def doubts(report: ReplayReport) -> list[str]:
    """The report's warnings, but for the one that a busy machine may earn."""
    return [
        warning for warning in report.warnings if "this client is the bottleneck" not in warning
    ]
