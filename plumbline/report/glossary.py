"""What the words of a page mean: on a report, and in docs/reference/glossary.md, which has all of these and more."""

GLOSSARY: dict[str, str] = {
    "active party": "The party that holds the labels and receives the confidence scores.",
    "attack": (
        "A method by which one party learns more of another's data than it should. All attacks here use only what "
        "their party received or owns."
    ),
    "AUC": "The area under the ROC curve: 0.5 is guessing, 1 is perfect.",
    "baseline": "A guess that sees no score. Attacks are measured against baselines; a baseline is no leak.",
    "confidence score": "The model's probability of each class, as the active party receives it.",
    "control": "The same measured where nothing can have leaked. What isn't clearly beyond it is chance.",
    "covered": "The share of true values that lie within the 90 % intervals which an attack gives itself.",
    "defence": "A change of what a party sends that makes attacks harder, usually at some cost in accuracy or time.",
    "discloses its parameters": (
        "Said of a passive party that gives the active party its part of the model, as papers on attacks assume. One "
        "that keeps them tells by its scores only."
    ),
    "equations and unknowns": (
        "Each number that a party receives is an equation about numbers that it does not know. With as many "
        "equations as unknowns it can solve for them."
    ),
    "exposed": "A column of which at least a tenth of what was unknown is given away, beyond chance.",
    "feature": "A number that is trained on. A column of words becomes several, a number one.",
    "federation's part": (
        "How much of the best guess's error the federation takes away: 0 % is no better than guessing, 100 % is "
        "read exactly. Only this part is a leak: the rest could be guessed anyway."
    ),
    "guessing": (
        "The best that anyone can do who sees no score or message of the federation: knowing what the level says, "
        "and using its own columns and labels."
    ),
    "holds": "Said of a defence under which no column and no label is shown to be given away by a tenth any more.",
    "honest-but-curious": "A party that follows the protocol and learns what it can from what it receives.",
    "independent equations": (
        "Answers about one record of which none follows from the others. A record of d features is solved for by d of "
        "them, and d of them come from about as many sessions where there are two classes."
    ),
    "INSECURE": "A protection that the protocol has is off in this run, for study.",
    "interval": "A 95 % interval: other records of the same kind would give a value within it in 95 of 100 cases.",
    "known records": (
        "Records that the adversary has in full, with the other party's columns: from a breach, or of customers that "
        "both have. It learns from them how columns depend. The level of this name is called records."
    ),
    "label": "What the model learns to tell of a record, such as who will repay; only the active party has it.",
    "level": (
        "How much the adversary knows beforehand of the other party's columns: nothing but public ranges; "
        "marginals (each column's mean and variance, or frequencies); covariance (also how columns vary "
        "together); records (also some complete records)."
    ),
    "light": (
        "Red, leaks much: half or more of what was unknown. Amber, leaks something: a tenth or more. Green, leaks "
        "little: shown to be less. Grey, not shown: neither could be shown, or nothing ran that could have told."
    ),
    "limit": (
        "How many sessions about the same records a passive party's owner allows (PLUMBLINE_MOST_EQUATIONS). Lights "
        "are for that many."
    ),
    "mean squared error": (
        "The mean of squared differences between estimate and truth, on the scale from 0 to 1 that the federation "
        "trains on."
    ),
    "not measured": "No attack ran that could have told. It is no word of safety.",
    "one-hot": "A category becomes one feature per value, which is 1 where the record has that value and 0 elsewhere.",
    "Paillier": (
        "The encryption under which the parties train: sums can be made of encrypted numbers without reading them."
    ),
    "passive party": "A party that brings columns of the same people and no labels.",
    "person": "One record. Records that are equal but for rounding count as one person.",
    "private set intersection": (
        "How parties find the records that all of them have, without telling ids of the others."
    ),
    "residual": "How far the model's score of a training record is off its label. Its sign tells the label.",
    "ROC": "How many true positives a rule finds for each share of false positives. The diagonal is guessing.",
    "session": (
        "One training of a model, and the scores that it gives. A new session answers the same records under other "
        "weights, so that what several tell adds up."
    ),
    "share": (
        "In a table or beside a bar: the federation's part of a column. In cryptography: one of several numbers that "
        "tell nothing apart, and whose sum is a weight or a residual."
    ),
    "squared error": "Short for mean squared error.",
    "typical error": (
        "The root of the mean squared error, in the column's own units: about two thirds of estimates are nearer "
        "than this."
    ),
    "verdict": "What a run found, in sentences, each by the rule of a light.",
    "white box": "The adversary also knows the other party's part of the model. Black box: it knows the scores only.",
}
