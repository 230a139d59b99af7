// Package simulator is a very fast LLM upstream for tests, demonstrations and benchmarks of gateways.
//
// It speaks plain HTTP/1.1 with keep-alive on loopback, through a parser of its own (no net/http), so that
// under load it costs less than what it measures:
//
//	POST …/chat/completions           OpenAI chat completions, JSON and SSE
//	POST …/responses                  OpenAI responses, JSON and SSE
//	POST …/messages                   Anthropic messages, JSON and SSE
//	POST …/models/M:generateContent, :streamGenerateContent   Gemini: JSON, SSE (alt=sse) and JSON array
//	POST …/messages/count_tokens, …:countTokens, …/embeddings, …/moderations, …/images/generations,
//	     …/audio/transcriptions        small JSON answers, with the same faults
//	GET  …/v1/models, …/v1beta/models a model list
//
// Any prefix before these suffixes is accepted (/openai/v1/chat/completions works too). The control surface is
// on the same port:
//
//	GET  /stats          Stats
//	POST /stats/reset    zeroes the counters; high-water marks restart at the present level
//	GET  /config         the present Config
//	POST /config         replaces it: {"default":{…Behavior},"rules":[{"key","model","path","behavior":{…}}]};
//	                     a field left out of "default" keeps the value the server was made with, one left out of
//	                     a rule's behavior is zero; an unknown or impossible field is a 400 that names it
//	GET  /rids           RequestRecord by request id, for requests with "[rid:ID]" anywhere in the body
//	GET  /requests       a Call per request, the last 50,000: how it ended and which usage it was told
//	GET  /last           the last request: method, path, headers, body
//
// The last three need Options.TrackRequests. "[usage:NAME=N,…]" anywhere in a body chooses the usage of its answer, with the
// names of a Behavior; an unknown one is a 400. Behaviour is chosen by the first rule that matches, else the default.
// Every random decision is a pure function of (seed, request number): a run over one connection is wholly
// reproducible, one over many connections draws the same multiset of faults.
package simulator
