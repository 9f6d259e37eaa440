"""``plumbline figures hu``: the experiments of Hu et al. (2022), section 7 and appendices E and F."""

from studies.study import Study

_HERE = "studies.hu"

STUDY = Study(
    name="hu",
    title="What training leaks",
    paper="Yuzheng Hu, Tianle Cai, Jinyong Shan, Shange Tang, Chaochao Cai, Ethan Song, Bo Li, Dawn Song: Is Vertical "
    "Logistic Regression Privacy-Preserving? A Comprehensive Privacy Analysis and Beyond (2022)",
    sections={
        "mnist01": f"{_HERE}.epochs:mnist01",
        "credit": f"{_HERE}.epochs:credit",
        "approximations": f"{_HERE}.approximations:approximations",
        "defence": f"{_HERE}.algorithm3:defence",
        "wire": f"{_HERE}.wire:wire",
    },
    shares={"mnist01": 8, "credit": 2, "approximations": 8, "defence": 6, "wire": 1},
    lead="A passive party solves its own gradient sums for the residuals f, whose signs are the labels. Section 7 of "
    "the paper on the same data; one epoch in a real federation beside the simulation, with --wire; and the other "
    "expansions of the sigmoid, with what keeps them from being trained under encryption.",
)
