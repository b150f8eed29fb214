"""Records of CSV by their definition, one character after the other, to compare the fast way with."""

MOST_LINES = 1000


def records_of(data, delimiters=b","):
    """Return every record of some lines; a quoted field may hold line breaks, a stray quote ends with its line."""
    found, at = [], 0
    while at < len(data):
        end = _joined(data, at, delimiters) or _line_end(data, at)
        found.append(data[at:end].removesuffix(b"\n"))
        at = end
    return found


def _line_end(data, at):
    return data.find(b"\n", at) + 1 or len(data)


def _joined(data, start, delimiters):
    """Return where the record ends if it runs over several lines; None if the line is the record."""
    first, at = start, start
    while data[at : _line_end(data, at)].count(b'"') % 2:
        if not _ends_inside(data[at : _line_end(data, at)].removesuffix(b"\n"), delimiters):
            return None
        at = _line_end(data, at)
        while data[at : at + 1] != b'"' or data[at : at + 2] == b'""':  # a doubled quote is a character
            if at >= len(data) or data.count(b"\n", first, at) > MOST_LINES:
                return None
            at += 2 if data[at : at + 2] == b'""' else 1
        at += 1
        if at >= len(data) or data[at : at + 1] not in (*(bytes([one]) for one in delimiters), b"\r", b"\n"):
            return None
    return None if at == start else _line_end(data, at)


def _ends_inside(line, delimiters):
    """Tell whether a quoted field is still open at the end of a line."""
    state, at = "start", 0
    while at < len(line):
        byte = line[at]
        if state == "inside" and line[at : at + 2] == b'""':
            at += 1
        elif state == "inside" and byte == ord('"'):
            state = "closed"
        elif state == "closed" and byte not in delimiters + b"\r\n":
            return False
        elif state != "inside":
            state = "start" if byte in delimiters else "inside" if state == "start" and byte == ord('"') else "plain"
        at += 1
    return state == "inside"
