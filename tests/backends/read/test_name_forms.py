"""Names parsed by columns say what each says by itself."""

from __future__ import annotations

import itertools
import re

import pytest

from spooltop.backends.directory.storage.name_forms import NameForms, id_starts, named_like
from spooltop.engine import names

OWN = "1795222800000001.P7R00000000000000aa.v"
IDS = (OWN, f"{OWN}%20m", "order-17", "a%20b", "a b", "x:y,z", "")
ATTRIBUTES = ("", ",n=1", ",s=mail,n=2,t=1795222800000000,e=exit-1,x=1", ",n=01", ",z=1", ",n=1,s=mail", ",s=a%2Fb,n=0")
TAILS = ("", f",c={'a' * 32}.1795222800000000:2,P7", ":2,P7", ":P7", ":2,S", f",c={'A' * 32}.1:2,P7", f",c={'a' * 32}.17:2,P7\n")
NAMES = [one for one in map("".join, itertools.product(IDS, ATTRIBUTES, TAILS)) if one]


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize("together", [1, 7, len(NAMES)])
def test_forms_are_what_each_name_is_parsed_to(claimed: bool, together: int) -> None:
    known = 0
    for start in range(0, len(NAMES), together):
        chunk = NAMES[start : start + together]
        forms = NameForms.of(chunk, claimed=claimed)
        for name, end, attributes, tail, part in zip(chunk, *forms, id_starts(chunk, claimed=claimed), strict=True):
            parsed = names.parse(name, claimed=claimed)
            assert part == re.split("[,:]", parsed.id)[0][:34], name
            if claimed:
                assert (tail[3:35] if tail[:1] == "," else None) == parsed.token, name
            if not end:
                continue
            known += 1
            like = named_like(attributes)
            assert like is not None
            assert (name[:end], name[: end + len(attributes)]) == (parsed.id, parsed.base), name
            for field in ("own", "source", "attempts", "not_before", "canary", "ended"):
                assert getattr(like, field) == getattr(parsed, field), (name, field)
    assert known >= 4
