"""What goes wrong in a study."""


class StudyError(Exception):
    """The study could not be run, or its page not be written; says why, for people."""
