//! Scenarios: facts in, trace out. Each is named by what it shows and cites the rule it shows.
//!
//! Where each of the kubelet's forty conformance scenarios (engine specification, §13) is shown:
//!
//! | Id | Shown by |
//! |---|---|
//! | C-1 | `attach::a_volume_of_a_controller_is_reported_then_attached_then_mounted` |
//! | C-2 | `attach::a_volume_that_is_attached_but_not_reported_waits_for_the_report` |
//! | C-3 | `waits::a_wait_for_a_pod_whose_volumes_make_no_sense_fails_at_once` |
//! | C-4 | `waits::a_wait_for_a_volume_that_the_node_has_no_room_for_says_so` |
//! | C-5 | `life::the_groups_of_mounted_volumes_are_added_to_those_of_the_pod` |
//! | C-6 | `waits::a_wait_for_unmount_that_takes_too_long_names_the_volumes`; the aggregate is made by whoever waits |
//! | C-7 | `life::a_pod_with_two_names_for_one_volume_gets_it_once_under_both` |
//! | C-8 | `sharing::a_shared_volume_is_staged_once_and_unstaged_after_the_last_pod`, `sharing::volumes_that_are_each_a_pods_own_go_their_own_ways`; the names themselves are made where volumes are resolved |
//! | C-9 | `attach::a_volume_that_left_the_report_must_be_reported_again`, `attach::a_report_that_is_older_than_the_volume_does_not_count_for_it` |
//! | C-10 | not here: sizes of `emptyDir` are a matter of its plugin and of resolving |
//! | C-11 | `labels::a_volume_is_staged_and_published_with_the_label_of_its_pod`, `labels::a_label_that_is_not_enforced_is_not_mounted_with`; the table itself in `src/label.rs` |
//! | C-12 | `labels::a_pod_without_a_label_conflicts_with_one_that_has_one`; the table itself in `src/label.rs` |
//! | C-13 | `labels::two_pods_with_different_labels_cannot_have_a_volume_at_the_same_time`, `labels::labels_that_are_not_enforced_do_not_conflict` |
//! | C-14 | `attach::an_attachment_that_is_told_twice_changes_nothing` |
//! | C-15 | `attach::nothing_is_published_before_the_node_has_attached_it` |
//! | C-16 | `attach::a_volume_is_not_detached_while_a_pod_may_have_it` |
//! | C-17 | `outcomes::a_volume_whose_publish_was_lost_is_not_handed_out_but_unpublished`, `waits::doubt_ends_a_wait_for_unmount_but_not_a_wait_until_all_is_gone` |
//! | C-18 | `start::what_was_found_without_proof_is_made_again_for_those_who_want_it`, `start::what_was_found_stays_uncertain_when_making_it_again_is_refused` |
//! | C-19 | `start::a_restart_under_a_running_pod_calls_nothing`, `start::a_volume_that_the_attacher_does_not_list_stays_in_its_pod`; here attachability is never uncertain: the record and the pod say it, and what the attacher says may change at any time |
//! | C-20 | `sources::a_pod_that_is_stopping_keeps_its_volumes_and_gets_no_new_ones`, `start::a_pod_that_was_stopping_before_the_restart_keeps_what_was_found_of_it`; unlike in the kubelet nothing new is mounted for a stopping pod, before or after the start |
//! | C-21 | `sources::a_volume_that_cannot_be_looked_up_waits_until_it_can`, `sources::a_volume_stays_while_one_of_its_pods_volumes_cannot_be_looked_up`; when a look-up is repeated is decided where volumes are resolved |
//! | C-22 | `sources::a_pod_that_left_its_source_keeps_its_volumes_while_its_containers_may_run` |
//! | C-23 | `sources::a_finished_pod_whose_volume_never_mounted_wants_nothing` (W-9: otherwise than the kubelet), `sources::a_finished_pod_gives_back_what_it_may_have` |
//! | C-24 | `attach::a_volume_that_stops_being_attachable_*`, `attach::a_volume_that_this_node_attached_is_detached_even_if_it_is_no_longer_attachable` |
//! | C-25 | not here: who owns a claim is a matter of resolving, and reaches the engine as a volume that is not known |
//! | C-26 | not here: the mode of a claim is a matter of resolving; what the engine makes of it, `waits::a_wait_for_a_pod_whose_volumes_make_no_sense_fails_at_once` |
//! | C-27 | `expansion::a_volume_grows_while_a_pod_has_it`, `expansion::a_device_grows_while_a_pod_has_it`, `expansion::a_volume_that_need_not_or_cannot_grow_is_handed_over_as_it_is` |
//! | C-28 | `life::a_volume_goes_up_step_by_step_and_down_the_same_way`, `attach::a_volume_leaves_the_report_only_when_it_is_unstaged` |
//! | C-29 | `attach::a_volume_that_is_never_attached_is_never_touched` |
//! | C-30 | `life::a_device_takes_the_same_steps_as_a_directory`, `life::a_device_of_a_plugin_without_devices_is_refused_in_words`; links to devices are a matter of the plugin |
//! | C-31 | `outcomes::a_volume_whose_stage_was_*`, `outcomes::a_stage_that_was_lost_and_then_refused_is_still_undone` (I-10: otherwise than the kubelet), `outcomes::a_volume_whose_refresh_fails_is_still_staged_and_published` |
//! | C-32 | `outcomes::a_volume_whose_publish_was_*`, `outcomes::a_publish_that_was_lost_and_then_refused_is_still_undone` (I-10: otherwise than the kubelet), `outcomes::a_refresh_that_fails_in_whatever_way_leaves_the_pod_what_it_had`, `expansion::a_pod_does_not_get_a_volume_that_fails_to_grow_and_it_is_cleaned_up` |
//! | C-33 | `life::a_volume_wanted_again_while_it_is_unstaged_is_staged_again_without_being_detached` |
//! | C-34 | `expansion::a_volume_grows_while_a_pod_has_it`, `expansion::a_device_grows_while_a_pod_has_it`, `expansion::a_volume_that_cannot_grow_in_use_is_not_asked_again_while_it_is_here`, `expansion::a_driver_that_does_not_grow_volumes_on_the_node_counts_as_done` |
//! | C-35 | the table in `src/expand.rs`; `expansion::a_size_that_is_impossible_is_not_tried_again_but_another_is`; patches of claims are made by whoever reports |
//! | C-36 | `start::what_was_found_without_proof_is_uncertain_in_each_of_its_pods`, `start::something_unreadable_that_nobody_names_is_taken_down` |
//! | C-37 | `start::a_pod_that_went_during_the_restart_is_taken_down_once_all_is_known`, `start::a_volume_that_the_attacher_does_not_list_stays_in_its_pod` |
//! | C-38 | `start::what_was_found_stays_uncertain_when_making_it_again_is_refused`, `start::a_stage_that_was_found_is_undone_even_if_making_it_again_is_refused` |
//! | C-39 | `start::something_unreadable_*` |
//! | C-40 | `sharing::each_pod_has_its_own_failures`, `sharing::a_volume_is_not_unstaged_while_one_of_its_pods_is_served`, `outcomes::a_result_that_comes_after_its_time_is_used`; there is no pending table: what may overlap is in `sharing.rs` |

mod language;

mod attach;
mod behind_our_back;
mod expansion;
mod found;
mod holds;
mod labels;
mod life;
mod nonsense;
mod outcomes;
mod reasons;
mod retries;
mod sharing;
mod sources;
mod start;
mod waits;
