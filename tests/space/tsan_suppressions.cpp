// Bytes of a block are copied while a thread writes others of them, or these: what is read may be half done,
// and no program without data races looks at such bytes before it has synchronised. The thread sanitizer sees
// the copies of this process alone. All else is judged.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:craton::fabric::tcp::SendQueue::copy\n"
         "race:craton::fabric::tcp::Connection::transmit\n"
         "race:craton::fabric::tcp::Connection::receive\n"
         "race:craton::fabric::tcp::Connection::serve_put\n"
         "race:craton::fabric::tcp::Connection::answered\n"
         "race:craton::fabric::tcp::Connection::flush_queue\n"
         "race:craton::fabric::Fabric::copy_in\n"
         "race:craton::fabric::Fabric::copy_out\n"
         "race:craton::coherence::merge_open\n"
         "race:craton::coherence::merge_closed\n"
         "race:craton::coherence::equal_blocks\n"
         "race:craton::coherence::LeaseSegment::make_twin\n"
         "race:craton::coherence::LeaseSegment::take_home\n"
         "race:craton::coherence::LeaseSegment::release\n"
         "race:craton::coherence::LeaseSegment::update\n";
}
