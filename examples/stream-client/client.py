#!/usr/bin/env python3
"""Claims units of a sale over one stream, with nothing but Python's library.

    client.py http://127.0.0.1:8080 movie-tickets --claims 1000

docs/stream.md describes the wire format. Four things are in this file: the part of
HTTP/2 that one long request needs, the messages, a stream with its many
requests under way, and a buyer that sends each claim until a server has decided on it.
"""
import argparse
import collections
import json
import os
import random
import socket
import struct
import sys
import threading
import time
import urllib.parse

PROTOBUF = "application/vnd.salectl.stream+protobuf"

# Outcomes that are no decision: the same claim is sent again, with the same key.
AGAIN = {"overloaded", "no_quorum", "unknown", "standby", "not_checked", "draining"}

# --- HTTP/2: one request whose body does not end before its answers (RFC 9113) ---

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK, PADDED = 1, 4, 1, 8


class Gone(Exception):
    """The connection is over, or was never there: what has no answer may be accepted."""


class Refused(Exception):
    """The server opens no stream; its problem document has the reason."""


class Connection:
    """A connection that begins with HTTP/2, and one POST on it, stream 1."""

    def __init__(self, host, port, path, headers):
        try:
            self.socket = socket.create_connection((host, port), timeout=10)
        except OSError as e:
            raise Gone(str(e))
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lock = threading.Condition()
        self.room_here, self.room_all = 65535, 65535  # what the server takes: of the stream, of all
        self.first_room = 65535
        self.over = None
        block = b"".join(literal(*h) for h in [
            (":method", "POST"), (":scheme", "http"), (":authority", f"{host}:{port}"), (":path", path), *headers])
        self.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, 1, block))

    def write(self, data):
        try:
            self.socket.sendall(data)
        except OSError as e:
            self.end(str(e))
            raise Gone(str(e))

    def end(self, why):
        with self.lock:
            self.over = self.over or why
            self.lock.notify_all()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def send(self, data):
        """Sends a part of the body, as much at a time as the server has room for."""
        while data:
            with self.lock:
                while not self.over and min(self.room_here, self.room_all) <= 0:
                    self.lock.wait()
                if self.over:
                    raise Gone(self.over)
                n = min(len(data), self.room_here, self.room_all, 16384)
                self.room_here -= n
                self.room_all -= n
                self.write(frame(DATA, 0, 1, data[:n]))
            data = data[n:]

    def finish(self):
        with self.lock:
            self.write(frame(DATA, END_STREAM, 1, b""))

    def exactly(self, n):
        data = bytearray()
        while len(data) < n:
            try:
                more = self.socket.recv(n - len(data))
            except OSError as e:
                raise Gone(str(e))
            if not more:
                raise Gone("the connection has ended")
            data += more
        return bytes(data)

    def answers(self):
        """Yields (status is 200, bytes) as the answer comes, until its end."""
        ok, block = None, b""
        while True:
            head = self.exactly(9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
            payload = self.exactly(length)
            if kind == SETTINGS and not flags & ACK:
                for name, value in struct.iter_unpack(">HI", payload):
                    if name == 4:  # the window that each stream begins with
                        self.more_room(here=value - self.first_room)
                        self.first_room = value
                self.reply(frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                self.reply(frame(PING, ACK, 0, payload))
            elif kind == WINDOW_UPDATE:
                n = int.from_bytes(payload, "big") & 0x7FFFFFFF
                self.more_room(here=n if stream else 0, all=0 if stream else n)
            elif kind == RST_STREAM:
                raise Gone(f"the server has reset the stream, error {int.from_bytes(payload, 'big')}")
            elif kind in (HEADERS, CONTINUATION) and ok is None:
                block += payload
                if flags & END_HEADERS:
                    ok = block[:1] == b"\x88"  # :status 200 in the static table of RFC 7541
                    yield ok, b""
            elif kind == DATA:
                if length:  # what was read may be sent again
                    n = struct.pack(">I", length)
                    self.reply(frame(WINDOW_UPDATE, 0, 0, n) + frame(WINDOW_UPDATE, 0, 1, n))
                if flags & PADDED:
                    payload = payload[1:len(payload) - payload[0]]
                yield ok, payload
            if flags & END_STREAM and kind in (DATA, HEADERS):
                return

    def reply(self, data):
        with self.lock:
            self.write(data)

    def more_room(self, here=0, all=0):
        with self.lock:
            self.room_here += here
            self.room_all += all
            self.lock.notify_all()


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header as a literal that no table has (RFC 7541, 6.2.2)."""
    return b"\x00" + b"".join(integer(len(s), 7) + s for s in (name.encode(), value.encode()))


def integer(n, bits):
    most = (1 << bits) - 1
    if n < most:
        return bytes([n])
    return bytes([most]) + varint(n - most)


# --- messages ---


def claim_message(id, user, key, quantity):
    claim = field(1, user.encode()) + field(2, key.encode()) + field(3, quantity)
    message = field(1, id) + field(5, claim)
    return varint(len(message)) + message


def cut(data):
    """Takes the first message off the bytes; None: it is not there to its end."""
    try:
        length, at = read_varint(data, 0)
    except IndexError:
        return None, data
    if len(data) < at + length:
        return None, data
    return data[at:at + length], data[at + length:]


def read(message):
    m = fields(message)
    id = m[1][0] if 1 in m else 0
    if 2 in m:  # an answer
        a = fields(m[2][0])
        claim = fields(a[2][0]) if 2 in a else {}
        name = fields(claim[1][0]) if 1 in claim else {}
        units = [unit for packed in claim.get(3, []) for unit in numbers(packed)]
        return Reply(id, a[1][0].decode(), units, "-".join(str(name.get(i, [0])[0]) for i in (1, 2, 3)), 3 in a,
                     a.get(10, [0])[0] / 1e9, False, a.get(11, [b""])[0].decode())
    if 6 in m:  # a problem
        p = fields(m[6][0])
        return Reply(id, p.get(4, [b"bad_request"])[0].decode(), [], None, False, 0, False, p.get(3, [b""])[0].decode())
    return Reply(id, None, [], None, False, 0, 5 in m, None)


Reply = collections.namedtuple("Reply", "id outcome units claim replayed retry_after going_away detail")


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def read_varint(data, at):
    n = shift = 0
    while True:
        b = data[at]
        n |= (b & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if b < 0x80:
            return n, at


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """The fields of a message: by number a list of integers or bytes."""
    found, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 2:
            length, at = read_varint(data, at)
            value, at = data[at:at + length], at + length
        else:  # fixed: 8 bytes or 4
            size = 8 if kind == 1 else 4
            value, at = int.from_bytes(data[at:at + size], "little"), at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def numbers(packed):
    at = 0
    while at < len(packed):
        n, at = read_varint(packed, at)
        yield n


# --- a stream ---


class Stream:
    """Many requests under way on one connection; each reply goes to its request."""

    def __init__(self, base, sale, token, reply, gone):
        self.reply, self.gone = reply, gone
        self.going_away = False
        url = urllib.parse.urlsplit(base)
        headers = [("content-type", PROTOBUF)]
        if token:
            headers.append(("authorization", "Bearer " + token))
        path = "/v1/sales/" + urllib.parse.quote(sale, safe="") + "/stream"
        self.connection = Connection(url.hostname, url.port or 80, path, headers)
        answers = self.connection.answers()
        ok, _ = next(answers)
        if not ok:
            raise Refused(b"".join(part for _, part in answers).decode())
        threading.Thread(target=self.receive, args=(answers,), daemon=True).start()

    def receive(self, answers):
        why, data = "the stream has ended", b""
        try:
            for _, part in answers:
                data += part
                while True:
                    message, data = cut(data)
                    if message is None:
                        break
                    r = read(message)
                    if r.id:
                        self.reply(r)
                    else:  # about the stream: it takes no more requests
                        self.going_away = True
                        if not r.going_away:
                            why = r.detail
        except Gone as e:
            why = str(e)
        self.connection.end(why)
        self.gone(self)

    def claim(self, id, user, key, quantity=1):
        if self.going_away:
            raise Gone("the server goes away")
        self.connection.send(claim_message(id, user, key, quantity))

    def finish(self):
        self.connection.finish()


# --- a buyer ---


class Buyer:
    """Sends claims, and each again with its key until a server has decided on it."""

    def __init__(self, servers, sale, token, under_way):
        self.servers, self.sale, self.token = servers, sale, token
        self.slots = threading.Semaphore(under_way)
        self.lock = threading.Condition()
        self.stream, self.server, self.next_id = None, 0, 0
        self.waiting = {}  # by id: user, key, stream
        self.again = collections.deque()  # (time, user, key)
        self.decided = {}  # by user

    def run(self, claims):
        for user, key in claims:
            while not self.slots.acquire(timeout=0.05):
                self.resend()  # all that are under way may have to be sent again
            self.send(user, key)
            self.resend()
        while True:
            with self.lock:
                if not self.waiting and not self.again:
                    break
                if not self.again:
                    self.lock.wait(0.1)
            self.resend()
        if self.stream:
            self.stream.finish()
        return self.decided

    def resend(self):
        while True:
            with self.lock:
                if not self.again or self.again[0][0] > time.monotonic():
                    break
                _, user, key = self.again.popleft()
            self.send(user, key)

    def open(self):
        while self.stream is None or self.stream.going_away or self.stream.connection.over:
            try:
                self.stream = Stream(self.servers[self.server], self.sale, self.token, self.replied, self.lost)
            except (Gone, Refused) as e:
                if isinstance(e, Refused) and json.loads(str(e))["status"] in (400, 401, 403, 404, 415, 505):
                    raise
                self.server = (self.server + 1) % len(self.servers)
                time.sleep(0.1 * (1 + random.random()))
        return self.stream

    def send(self, user, key):
        stream = self.open()
        with self.lock:
            self.next_id += 1
            id = self.next_id
            self.waiting[id] = (user, key, stream)
        try:
            stream.claim(id, user, key)
        except Gone:
            self.lost(stream)

    def replied(self, r):
        with self.lock:
            user, key, _ = self.waiting.pop(r.id, (None, None, None))
            if user is None:
                return
            if r.outcome in AGAIN:
                self.later(r.retry_after or 1, user, key)
            else:
                self.decided[user] = r
                self.slots.release()
            self.lock.notify_all()

    def lost(self, stream):
        """What had no answer on a stream that is over is sent again on another."""
        with self.lock:
            for id, (user, key, on) in list(self.waiting.items()):
                if on is stream:
                    del self.waiting[id]
                    self.later(0.05, user, key)
            self.lock.notify_all()

    def later(self, wait, user, key):
        self.again.append((time.monotonic() + wait * (1 + random.random() / 4), user, key))


def main():
    p = argparse.ArgumentParser(description="Claims one unit for each of many users over one stream.")
    p.add_argument("servers", help="base URLs, separated by commas")
    p.add_argument("sale")
    p.add_argument("--claims", type=int, default=1000)
    p.add_argument("--users", default="user-", help="what the users' names begin with")
    p.add_argument("--under-way", type=int, default=200)
    p.add_argument("--units", action="store_true", help="print each user's claim and units")
    o = p.parse_args()
    buyer = Buyer(o.servers.split(","), o.sale, os.environ.get("SALE_TOKEN"), o.under_way)
    try:
        decided = buyer.run((f"{o.users}{n}", f"order-{n}") for n in range(1, o.claims + 1))
    except Refused as e:
        sys.exit(json.loads(str(e))["detail"])
    if o.units:
        for user, r in sorted(decided.items()):
            print(user, r.outcome, r.claim, *r.units)
        return
    for outcome, n in sorted(collections.Counter(r.outcome for r in decided.values()).items()):
        print(outcome, n)


main()
