"""The field's words, each in a sentence, for the report's glossary and its tooltips."""

GLOSSARY: dict[str, str] = {
    "active party": "The party that holds the labels and receives the confidence scores.",
    "passive party": "A party that brings columns of the same people and no labels.",
    "federation's part": (
        "How much of the best guess's error the federation takes away: 0 % is no better than guessing, 100 % is "
        "read exactly. Only this part is a leak: the rest could be guessed anyway."
    ),
    "guessing": (
        "The best that anyone can do who sees no score or message of the federation: knowing what the level says, "
        "and using its own columns and labels."
    ),
    "level": (
        "How much the adversary knows beforehand of the other party's columns: nothing but public ranges; "
        "marginals (each column's mean and variance, or frequencies); covariance (also how columns vary "
        "together); records (also some complete records)."
    ),
    "interval": "A 95 % interval: other records of the same kind would give a value within it in 95 of 100 cases.",
    "mean squared error": (
        "The mean of squared differences between estimate and truth, on the scale from 0 to 1 that the federation "
        "trains on."
    ),
    "typical error": (
        "The root of the mean squared error, in the column's own units: about two thirds of estimates are nearer "
        "than this."
    ),
    "baseline": "A guess that sees no score. Attacks are measured against baselines; a baseline is no leak.",
    "attack": (
        "A method by which one party learns more of another's data than it should. All attacks here use only what "
        "their party received or owns."
    ),
    "white box": "The adversary also knows the other party's part of the model. Black box: it knows the scores only.",
    "confidence score": "The model's probability of each class, as the active party receives it.",
    "residual": "How far the model's score of a training record is off its label. Its sign tells the label.",
    "equations and unknowns": (
        "Each number that a party receives is an equation about numbers that it does not know. With as many "
        "equations as unknowns it can solve for them."
    ),
    "honest-but-curious": "A party that follows the protocol and learns what it can from what it receives.",
    "Paillier": (
        "The encryption under which the parties train: sums can be made of encrypted numbers without reading them."
    ),
    "private set intersection": (
        "How parties find the records that all of them have, without telling ids of the others."
    ),
    "ROC": "How many true positives a rule finds for each share of false positives. The diagonal is guessing.",
    "AUC": "The area under the ROC curve: 0.5 is guessing, 1 is perfect.",
    "defence": "A change of what a party sends that makes attacks harder, usually at some cost in accuracy or time.",
    "covered": "The share of true values that lie within the 90 % intervals which an attack gives itself.",
    "one-hot": "A category becomes one feature per value, which is 1 where the record has that value and 0 elsewhere.",
    "INSECURE": "A protection that the protocol has is off in this run, for study.",
}
