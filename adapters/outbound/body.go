package outbound

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
)

// errChunk is a chunk header that is none.
var errChunk = errors.New("malformed chunk in the answer")

// Read gives body bytes. It ends with io.EOF only at the proper end of the body.
func (in *incoming) Read(p []byte) (int, error) {
	if in.ended {
		return 0, io.EOF
	}
	n, err := in.read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, in.failure(err)
}

func (in *incoming) failure(err error) error {
	phase := actors.PhaseBody
	var ne net.Error
	switch {
	case in.gone.Fired():
		phase, err = actors.PhaseCancelled, context.Canceled
	case errors.As(err, &ne) && ne.Timeout():
		phase = actors.PhaseIdle
	case errors.Is(err, errChunk):
		phase = actors.PhaseMalformed
	}
	return &actors.SendError{Phase: phase, Err: err}
}

func (in *incoming) read(p []byte) (int, error) {
	if in.chunked && in.left == 0 {
		if err := in.nextChunk(); err != nil {
			return 0, err
		}
		if in.ended {
			return 0, io.EOF
		}
	}
	if !in.toClose && int64(len(p)) > in.left {
		p = p[:in.left]
	}
	n, err := in.br.Read(p)
	in.left -= int64(n)
	switch {
	case err == io.EOF && in.toClose:
		in.ended = true
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	case err != nil:
		return n, err
	}
	if !in.chunked && !in.toClose && in.left == 0 {
		in.ended = true
	}
	return n, nil
}

// nextChunk reads a chunk header, and the trailers after the last one.
func (in *incoming) nextChunk() error {
	if !in.first {
		if line, err := in.line(); err != nil {
			return err
		} else if len(line) != 0 {
			return errChunk
		}
	}
	in.first = false
	line, err := in.line()
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, perr := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 62)
	if perr != nil {
		return errChunk
	}
	if n > 0 {
		in.left = int64(n)
		return nil
	}
	for { // trailers
		line, err := in.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			in.ended = true
			return nil
		}
	}
}

// line reads up to the next line end, without it.
func (in *incoming) line() ([]byte, error) {
	line, err := in.br.ReadSlice('\n')
	if err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// Close gives the connection back to the pool when the body was read to its end and nobody has cut it, else closes it.
func (in *incoming) Close() error {
	if in.closed {
		return nil
	}
	in.closed = true
	whole := in.gone.Release()
	if whole && in.ended && !in.toClose && !in.head.ConnectionClose() && in.br.Buffered() == 0 {
		in.p.put(in.c)
	} else {
		in.c.Close()
	}
	in.c, in.p, in.br, in.gone = nil, nil, nil, nil
	incomings.Put(in)
	return nil
}
