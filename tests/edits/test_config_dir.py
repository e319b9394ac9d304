from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnet3 import Nnet, load
from nnet3.errors import ConfigError, NetworkError
from nnet3.kaldi_io import load_matrix
from nnet3.model.edits.config_dir import ConfigDir, make_config_dir, write_final_config
from tests.xconfig.config_lines import clean_lines

XCONFIG = """
  input name=ivector dim=4   # speaker
input name=input dim=3
fixed-affine-layer name=lda input=Append(-1,0,ReplaceIndex(ivector, t, 0)) affine-transform-file=configs/lda.mat
relu-batchnorm-layer name=t1 dim=8 input=Append(-2,1)
output-layer name=output dim=5
"""
IDCT = "input name=input dim=3\nidct-layer name=idct affine-transform-file=idct.mat\noutput-layer name=output dim=2\n"


def test_a_config_folder_has_kaldis_files(tmp_path: Path) -> None:
    made = make_config_dir(XCONFIG, command="nnet3 xconfig-to-configs\n--more")
    made.write(tmp_path / "a" / "configs")
    files = {path.name: path for path in (tmp_path / "a" / "configs").iterdir()}
    assert set(files) == {
        *("xconfig", "xconfig.expanded.1", "xconfig.expanded.2", "init.config", "ref.config", "final.config"),
        *("init.raw", "ref.raw", "vars"),
    }
    assert files["vars"].read_text() == "model_left_context=3\nmodel_right_context=1\n"
    for name in ("init.config", "ref.config", "final.config", "xconfig", "xconfig.expanded.1"):
        lines = files[name].read_text().splitlines()
        empty = lines.index("")
        assert all(line.startswith("#") for line in lines[:empty])
        assert "# nnet3 xconfig-to-configs --more" in lines[:empty]
        assert not lines[empty + 1].startswith("#")
    assert files["xconfig"].read_text().splitlines()[5] == "input name=ivector dim=4   # speaker"
    init = Nnet.from_config_file(files["init.config"])
    assert (init.left_context, init.right_context) == (1, 0)
    assert load(files["init.raw"]).info() == init.info()
    ref = load(files["ref.raw"])
    assert (ref.left_context, ref.right_context) == (3, 1)
    assert ref.components["lda"].output_dim == 10
    assert "# speaker" not in files["xconfig.expanded.1"].read_text()
    assert "matrix=configs/lda.mat" in files["final.config"].read_text()


def test_an_old_init_config_goes(tmp_path: Path) -> None:
    make_config_dir(XCONFIG).write(tmp_path)
    assert (tmp_path / "init.config").exists()
    make_config_dir(XCONFIG.replace("affine-transform", "write-init-config=false affine-transform")).write(tmp_path)
    assert not (tmp_path / "init.config").exists()
    assert not (tmp_path / "init.raw").exists()


def test_matrices_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_config_dir(IDCT).write("configs")
    text = Path("idct.mat").read_text()
    assert text.startswith("[ 0.5773502691896257 ")
    assert text.endswith(" 0 ]")
    assert load_matrix("idct.mat").shape == (3, 4)
    final = Nnet.from_config_file("configs/final.config")
    ref, made = load("configs/ref.raw"), Nnet.from_xconfig(IDCT)
    assert final.warnings == made.warnings == []
    for nnet in (final, ref):
        assert (nnet.components["idct"].linear_params - made.components["idct"].linear_params).abs().max() < 1e-7


def test_an_existing_model() -> None:
    old = Nnet.from_xconfig(XCONFIG)
    text = "relu-layer name=t2 dim=6 input=t1.batchnorm@-4\noutput-layer name=output dim=2\n"
    made = make_config_dir(text, existing=old)
    assert (made.left_context, made.right_context) == (7, 0)
    lines = clean_lines(made.texts["final.config"])
    assert lines[1] == "component-node name=t2.affine component=t2.affine input=Offset(t1.batchnorm, -4)"
    assert old.node_dim("output") == 5
    assert made.networks["ref.raw"].node_dim("output") == 2


def test_edits_serve_the_context_alone() -> None:
    text = XCONFIG.replace("name=output", "name=output-0")
    with pytest.raises(NetworkError, match="left and right context are those of simple networks: an output 'output'"):
        make_config_dir(text)
    made = make_config_dir(text, edits="rename-node old-name=output-0 new-name=output")
    assert (made.left_context, made.right_context) == (3, 1)
    assert made.networks["ref.raw"].output_names == ["output-0"]
    assert make_config_dir(XCONFIG, edits="  ").left_context == 3


def test_a_delay_at_the_output_needs_one_at_the_transform() -> None:
    text = XCONFIG.replace("dim=5", "dim=5 output-delay=-5").replace("input=Append(-2,1)", "")
    with pytest.raises(NetworkError, match=r"more than the whole network.*give the fixed-affine-layer a delay="):
        make_config_dir(text.replace("Append(-1,0,", "Append(-1,0,1,"))
    made = make_config_dir(text.replace("lda.mat", "lda.mat delay=-5").replace("Append(-1,0,", "Append(-1,0,1,"))
    assert (made.left_context, made.right_context) == (6, 0)


def test_errors_before_anything_is_written(tmp_path: Path) -> None:
    def write(text: str) -> ConfigDir:
        made = make_config_dir(text, "net.xconfig")
        made.write(tmp_path / "configs")
        return made

    with pytest.raises(ConfigError, match=r"net.xconfig: the xconfig has no output"):
        write("input name=input dim=3")
    with pytest.raises(ConfigError, match=re.escape("net.xconfig:2:40: ")):
        write("input name=input dim=3\noutput-layer name=output l2-regularize=x")
    assert not (tmp_path / "configs").exists()


def test_the_final_config_alone(tmp_path: Path) -> None:
    write_final_config(XCONFIG, "<xconfig>", tmp_path / "net.config")
    text = (tmp_path / "net.config").read_text()
    assert clean_lines(text) == clean_lines(make_config_dir(XCONFIG).texts["final.config"])
    write_final_config(
        "linear-component name=a input=t1.relu dim=3", "", tmp_path / "b", existing=Nnet.from_xconfig(XCONFIG)
    )
    assert len(clean_lines((tmp_path / "b").read_text())) == 2
