"""``plumbline figures defences``: every defence against every attack, its cost, and the papers' figures, redrawn."""

from studies.study import Study

STUDY = Study(
    name="defences",
    title="The defences, evaluated",
    paper="Hu, Rassouli, Varasteh and Jiang on defences, and ours",
    sections={
        "matrix": "studies.defences.matrix:matrix_section",
        "cost": "studies.defences.cost:cost_section",
        "noise": "studies.defences.noise:noise_section",
        "canaries": "studies.defences.canaries:canaries_section",
    },
    lead="Each defence against each attack that applies, what it costs, and the papers' figures redrawn. A defence is "
    "judged by what is left of the federation's part: how much less the best attack that knows the defence errs than "
    "the best guess without scores.",
    shares={"matrix": 15.0, "cost": 2.0, "noise": 2.0},
)
