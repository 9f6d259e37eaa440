"""The command ``plumbline``."""

from plumbline.cli import app


def main() -> None:
    """Entry point of the installed command."""
    app()


if __name__ == "__main__":
    main()
