"""Many requests over connections that stay open: a client that costs less than the daemon."""

import multiprocessing
import select
import socket
import time

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length: "


def request_bytes(method, path, body=b"", content_type="application/merge-patch+json"):
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body:
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + HEAD_END[:2] + body


def connect(socket_path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(socket_path))
    connection.setblocking(False)
    return connection


def answer_length(data):
    """Of the first answer in it; 0 while it is not there as a whole."""
    end = data.find(HEAD_END)
    if end < 0:
        return 0
    assert data.startswith(b"HTTP/1.1 200"), data[:500]
    at = data.index(LENGTH) + len(LENGTH)
    whole = end + len(HEAD_END) + int(data[at:data.index(b"\r", at)])
    return whole if len(data) >= whole else 0


def drive(socket_path, rounds, seconds):
    """A connection for each of `rounds`, which asks those requests round and round, one at a time.
    Returns answers per second and the share of a core that this client took."""
    poll = select.epoll()
    open_ones = {}
    for requests in rounds:
        connection = connect(socket_path)
        poll.register(connection, select.EPOLLIN)
        open_ones[connection.fileno()] = [connection, requests, 0, b""]
    begun, used = time.perf_counter(), time.process_time()
    end = begun + seconds
    for connection, requests, _, _ in open_ones.values():
        connection.send(requests[0])
    answers = 0
    while time.perf_counter() < end:
        for descriptor, _ in poll.poll(1):
            state = open_ones[descriptor]
            connection, requests, turn, partial = state
            data = partial + connection.recv(1 << 16)
            if not answer_length(data):
                state[3] = data
                continue
            answers += 1
            turn = (turn + 1) % len(requests)
            state[2], state[3] = turn, b""
            connection.send(requests[turn])
    took = time.perf_counter() - begun
    for connection, *_ in open_ones.values():
        connection.close()
    return answers / took, (time.process_time() - used) / took


def drive_in_processes(socket_path, rounds, seconds, processes):
    """The sum of the rates, and the busiest client's share of a core."""
    shares = [rounds[number::processes] for number in range(processes)]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        results = pool.starmap(drive, [(socket_path, share, seconds) for share in shares])
    return sum(rate for rate, _ in results), max(share for _, share in results)
