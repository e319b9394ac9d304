"""The end of a run: the final model, from those kept or as it is."""

from __future__ import annotations

from nnet3.errors import Nnet3Error
from nnet3.nnet import AcousticModel, Nnet
from nnet3.train.run.training_run import TrainingRun


def finish_run(run: TrainingRun) -> None:
    """Write `final.raw` or `final.mdl`. It depends on the last checkpoint and on files only, so that it can be done
    again after a sudden end.
    """
    if not run.world.is_first:
        return
    final = run.nnet
    path = run.checkpoints.folder.parent / ("final.mdl" if isinstance(run.model, AcousticModel) else "final.raw")
    model: Nnet | AcousticModel = final
    if isinstance(run.model, AcousticModel):
        model = AcousticModel(run.model.transition_model, final, run.model.priors)
    try:
        model.save(path)
    except Nnet3Error as error:
        raise Nnet3Error(f"{error}; training is done and kept: when this is put right, say --resume") from None
    run.reports.event("final", step=run.progress.step, path=str(path))
