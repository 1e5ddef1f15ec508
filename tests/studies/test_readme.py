"""Tables of the README come from rows."""

import pytest
from rows import bench_row

from zeta_core.records import append_rows
from zeta_core.studies import readme
from zeta_core.studies.readme import fill, mqar_table, operator_table

TRAIN = """\
status,attention,d_k,num_chunks,local_window,device,slice,value,reachable,wall_s,torch,dtype
ok,zeta,3,8,0,A CPU,all,0.9,1.0,50.0,2.13,fp32
ok,zeta,3,8,0,A CPU,all,1.0,1.0,60.0,2.13,fp32
ok,zeta,3,8,0,A CPU,pairs=4,1.0,1.0,60.0,2.13,fp32
failed,zeta,3,8,0,A CPU,all,,1.0,,2.13,fp32
ok,softmax,,,,A CPU,all,0.5,1.0,9.0,2.13,fp32
"""
BENCH = """\
status,points,device,seq_len,mode,timing,heads,batch,provider,time_ms,peak_mib,num_chunks,torch,dtype
ok,random,GPU,65536,forward,graph,8,1,zeta_triton,0.5,30.0,8,2.11,bf16
ok,random,GPU,65536,forward,graph,8,1,sdpa_cudnn,10.0,20.0,,2.11,bf16
ok,random,GPU,65536,forward,graph,8,1,sdpa_flash,15.0,1.0,,2.11,bf16
skipped,random,GPU,65536,forward,graph,8,1,sdpa_x,,,,2.11,bf16
ok,equal,GPU,65536,forward,graph,8,1,zeta_triton,9.0,1.0,8,2.11,bf16
"""


@pytest.fixture
def results(tmp_path):
    (tmp_path / "train.csv").write_text(TRAIN)
    (tmp_path / "bench_operator.csv").write_text(BENCH)
    return tmp_path


def test_seeds_of_one_configuration_are_one_line(results):
    table = mqar_table(results)
    assert "| zeta | 3 | 8 | 0 | 0.9000, 0.9500 of 2 | 1.00 | 60 |" in table
    assert "| softmax | - | - | - | 0.5000 | 1.00 | 9 |" in table
    assert "Measured on A CPU, torch 2.13, fp32." in table


def test_the_operator_is_compared_with_the_fastest_opponent(results):
    table = operator_table(results)
    assert "| GPU | 65,536 | graph | 0.5, 10 | 20.0 | 1.50 | - | - | - |" in table
    assert "Dense: the fastest of sdpa_cudnn, sdpa_flash there;" in table
    assert "9" not in table.splitlines()[2]  # other points are another question


def test_the_paper_s_times_stand_beside_ours(results):
    rows = [
        bench_row(preset="paper", timing="graph", provider=name, seq_len=4096, mode=mode, time_ms=ms, device="GPU")
        for mode in ("forward", "forward_backward")
        for name, ms in (("zeta_triton", 2.0), ("sdpa_flash", 8.0), ("sdpa_cudnn", 6.0), ("flex_window", 1.0))
    ]
    rows.append(bench_row(preset="default", timing="graph", provider="zeta_triton", seq_len=8192))
    append_rows(results / "bench.csv", rows)
    table = readme.bench_table(results).splitlines()
    assert table[2] == "| 4,096 | 3.4, 5.6 | 0.6 | 8, 2 | 4.0 | 3.0 (sdpa_cudnn) | 8, 2 | 4.0 | 3.0 (sdpa_cudnn) |"
    assert table[3] == "| 8,192 | 12.8, 11.0 | 1.2 | - | - | - | - | - | - |"
    assert "Measured on GPU, torch 2, fp32." in table


def test_only_what_stands_between_the_marks_is_replaced(results):
    text = "before\n<!-- table: mqar -->\nold\n<!-- end -->\nafter\n"
    filled = fill(text, results)
    assert filled.startswith("before\n<!-- table: mqar -->\n| attention")
    assert filled.endswith("<!-- end -->\nafter\n")
    assert "old" not in filled
    assert fill(filled, results) == filled


def test_every_mark_of_the_readme_is_a_table():
    with pytest.raises(KeyError):
        fill("<!-- table: none -->\n<!-- end -->", None)
    assert set(readme.TABLES) == {"mqar", "operator", "bench"}
