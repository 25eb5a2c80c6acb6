"""The files of graphs and programs: ``learned-mapping/graph/1`` and ``learned-mapping/program/1``.

Code that experiments rest on imports `graph_format` or `program_format`, so that results about graphs do not rest on
programs. Solutions have their files beside the rules they obey: `mmap.mapping`, `mcm.partition`, `regal.schedule`.
"""

from learned_mapping.programs.graph_format import graph_from_json as graph_from_json
from learned_mapping.programs.graph_format import graph_to_json as graph_to_json
from learned_mapping.programs.graph_format import read_graph as read_graph
from learned_mapping.programs.graph_format import write_graph as write_graph
from learned_mapping.programs.program_format import program_from_json as program_from_json
from learned_mapping.programs.program_format import program_to_json as program_to_json
from learned_mapping.programs.program_format import read_program as read_program
from learned_mapping.programs.program_format import write_program as write_program
