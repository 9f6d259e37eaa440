"""What may be said of where a table is: a database's address without its password, however it was mistyped."""

import os
import re

# In place of a password.
LEFT_OUT = "***"
_URL = re.compile(r"([A-Za-z][\w.+-]*)://(.*)", re.DOTALL)
# What names a secret, in a URL's query and in a driver's own connection strings.
_NAMED = r"(pass(?:word|wd|phrase)?|pwd)[\"']?\s*[=:]"
_SECRET = re.compile(rf"(?i){_NAMED}.*", re.DOTALL)
# What follows a colon may be a password, unless it is a port, or the path on a drive.
_COLON, _COLON_WITHOUT_PORT = re.compile(r"(?<=..):.*", re.DOTALL), re.compile(r":(?!\d{1,5}(/|$)).*", re.DOTALL)
_IN_URL = re.compile(r"(://[^:/@]*:)[^@]*@"), re.compile(rf"(?i)([?&][^=&]*{_NAMED})[^&]*")


def without_password(source: str) -> str:
    """Write an address for people: user and host stay; the password and the query, which may hold one too, do not.

    Of what is no URL and no file, most likely a URL without its scheme, whatever may be a password is left out.
    """
    if os.path.isfile(source):  # noqa: PTH113 - pathlib raises for names that no file can have
        return source
    url = _URL.fullmatch(source)
    before, at_sign, place = (url[2] if url else source).rpartition("@")
    place, query, _ = place.partition("?")
    place = _SECRET.sub(LEFT_OUT, place)
    if url is None:
        if query and not at_sign:
            place = re.split(r"[:/\\]", place)[0] + LEFT_OUT
        return (f"{LEFT_OUT}@" if at_sign else "") + _COLON.sub(f":{LEFT_OUT}", place)
    if not url[1].startswith("sqlite"):  # whose place is a path
        place = _COLON_WITHOUT_PORT.sub(f":{LEFT_OUT}", place)
    user = re.match(r"[\w.+-]*", before)
    return f"{url[1]}://" + (f"{user[0] if user else ''}:{LEFT_OUT}@" if at_sign else "") + place


def recorded(source: str) -> str:
    """Write the address as a run keeps it: complete, but for every password in it."""
    if "://" not in source:
        return source
    in_front, in_query = _IN_URL
    return in_query.sub(rf"\1{LEFT_OUT}", in_front.sub(rf"\1{LEFT_OUT}@", source))
